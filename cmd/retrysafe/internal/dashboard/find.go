package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// rowsPerPage bounds a list. The store is asked for a page of its own, which may be longer.
const rowsPerPage = 100

// findPage is the data of the page.
type findPage struct {
	State, Scope, MinAge, Tag string
	States                    []string
	Listed                    bool // a list was asked for
	Keys                      []keys.Record
	Unread                    string // as in keys.Page
	Next                      string // the query of the next page; empty: this is the last
}

// find looks for one key, by a tag or by what keys.Look accepts, and lists the keys if a tag is that of several. The
// text may be the key itself, so it is posted, and the page of the key has the digest in its URL.
func (q *request) find() error {
	text := strings.TrimSpace(q.r.PostForm.Get("key"))
	if text == "" {
		return &fault{http.StatusBadRequest, "There is nothing to find", "Write a tag, a digest, the instance of an " +
			"error, or the key that the client sent."}
	}
	look := keys.Look{Key: text}
	if scope := q.r.PostForm.Get("scope"); scope != "" {
		look.Scope = &scope
	}
	if keys.IsTag(text) {
		page, err := q.keys.List(q.r.Context(), keys.Query{State: keys.All, Tag: text, Scope: look.Scope, Limit: 2})
		switch {
		case err != nil:
			return err
		case len(page.Keys) > 1:
			http.Redirect(q.w, q.r, "/find?"+url.Values{"state": {keys.All}, "tag": {text}}.Encode(), http.StatusSeeOther)
			return nil
		case len(page.Keys) == 1:
			look = keys.Look{Key: page.Keys[0].Digest}
		}
	}
	found, err := q.keys.Show(q.r.Context(), look)
	if err != nil {
		return err
	}
	http.Redirect(q.w, q.r, "/keys/"+found[0].Digest, http.StatusSeeOther)
	return nil
}

// list shows the keys that a form selects, and the form.
func (q *request) list() error {
	form := q.r.URL.Query()
	data := findPage{
		State: form.Get("state"), Scope: form.Get("scope"), MinAge: form.Get("age"), Tag: strings.TrimSpace(form.Get("tag")),
		States: []string{keys.All, keys.Abandoned, keys.Uncommitted, keys.InFlight, keys.Released, keys.Succeeded, keys.Failed},
	}
	if data.State == "" {
		data.State = keys.All
		return q.render(http.StatusOK, "find", "Find keys", "find", data)
	}
	query := keys.Query{State: data.State, Tag: data.Tag, Limit: rowsPerPage}
	switch data.State {
	case keys.Abandoned, keys.Uncommitted, keys.InFlight:
		query.Limit = 0 // a page of the store has those of the other two states too
	}
	if data.Tag != "" && !keys.IsTag(data.Tag) {
		return &fault{http.StatusBadRequest, "The tag cannot be read", "Write its name and its value, as in order=1234."}
	}
	if data.Scope != "" {
		query.Scope = &data.Scope
	}
	if data.MinAge != "" {
		age, err := yamlfile.ParseDuration(strings.TrimSpace(data.MinAge))
		if err != nil || age < 0 {
			return &fault{http.StatusBadRequest, "The age cannot be read", "Write a number and a unit: 5m, 24h or 30d."}
		}
		query.MinAge = age
	}
	query.Before, _ = strconv.ParseInt(form.Get("before"), 10, 64) // 0, from the newest on, if it is none
	skip, _ := strconv.Atoi(form.Get("skip"))
	found, err := q.keys.List(q.r.Context(), query)
	if err != nil {
		return err
	}
	data.Listed, data.Unread = true, found.Unread
	skip = min(max(skip, 0), len(found.Keys))
	rest := found.Keys[skip:]
	data.Keys = rest[:min(len(rest), rowsPerPage)]
	next := url.Values{"state": {data.State}, "scope": {data.Scope}, "age": {data.MinAge}, "tag": {data.Tag}}
	switch {
	case len(rest) > rowsPerPage:
		next.Set("before", strconv.FormatInt(query.Before, 10))
		next.Set("skip", strconv.Itoa(skip+rowsPerPage))
		data.Next = next.Encode()
	case found.Next != 0:
		next.Set("before", strconv.FormatInt(found.Next, 10))
		data.Next = next.Encode()
	}
	return q.render(http.StatusOK, "find", "Find keys", "find", data)
}
