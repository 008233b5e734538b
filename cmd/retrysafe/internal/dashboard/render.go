package dashboard

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

//go:embed templates
var templates embed.FS

// pages are the templates by their names. Each has the layout around it.
type pages map[string]*template.Template

var pageNames = []string{
	"overview", "top", "find", "attention", "key", "decide", "preview", "decided", "proposal", "outboxes", "outbox", "letter",
	"configuration", "audit", "login", "welcome", "error",
}

func parsePages() pages {
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	all := pages{}
	for _, name := range pageNames {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(templates, "templates/"+name+".html"))
	}
	return all
}

// functions are what templates call.
var functions = template.FuncMap{
	"span":    span,
	"clean":   cli.Clean,
	"shorten": func(text string) string { return cli.Shorten(cli.Clean(text)) },
	"tags":    keys.TagsText,
	"when":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"machine": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"number":  number,
	"meaning": keys.Meaning,
	"group":   func(title string, of ages) ageGroup { return ageGroup{title, of} },
	"upper":   func(text string) string { return strings.ToUpper(text[:1]) + text[1:] },
	"pageOf":  pageOf,
	"words":   func(state string) string { return strings.ReplaceAll(state, "-", " ") },
}

// pageOf is the page of a key or of a dead letter.
func pageOf(name string) string {
	if isLetter(name) {
		return "/outboxes/" + name
	}
	return "/keys/" + name
}

// span is a number of seconds as people read it at a glance.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d >= time.Second {
		d = d.Truncate(time.Second)
	}
	switch {
	case d >= 48*time.Hour:
		return strconv.Itoa(int(d/(24*time.Hour))) + " d " + strconv.Itoa(int(d%(24*time.Hour)/time.Hour)) + " h"
	case d >= time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h " + strconv.Itoa(int(d%time.Hour/time.Minute)) + " min"
	case d >= time.Minute:
		return strconv.Itoa(int(d/time.Minute)) + " min " + strconv.Itoa(int(d%time.Minute/time.Second)) + " s"
	case d >= time.Second:
		return strconv.Itoa(int(d/time.Second)) + " s"
	}
	return strconv.Itoa(int(d/time.Millisecond)) + " ms"
}

// number writes 1234567 as 1 234 567, with narrow spaces.
func number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// page is what the layout shows.
type page struct {
	Title, Nav string
	Name       string
	Role       Role
	HasLogin   bool
	Token      string
	Store      string
	Outboxes   bool   // there are some
	Next       string // the page leads on to this path at once
	Version    string
	Data       any
}

// CanResolve and CanPurge are asked by templates: what a visitor may not do is not offered.
func (p page) CanResolve() bool { return p.Role >= Resolve }

// CanPurge is the same for purges.
func (p page) CanPurge() bool { return p.Role >= Purge }

func (q *request) page(title, nav string, data any) page {
	return page{
		Title: title, Nav: nav, Name: q.who.Name, Role: q.who.Role, HasLogin: q.options.hasLogin(),
		Token: q.token(), Store: q.options.Store, Version: cli.Version(), Data: data,
		Outboxes: q.who.Role > 0 && q.menu.hasOutboxes(q.r.Context(), q.options.Outboxes),
	}
}

// render answers with a page. nav is the entry of the menu that the page belongs to.
func (q *request) render(status int, name, title, nav string, data any) error {
	return q.renderPart(status, name, "layout.html", q.page(title, nav, data))
}

// renderPart answers with one template of a page. It sends nothing before the whole is there.
func (q *request) renderPart(status int, name, part string, p page) error {
	var text bytes.Buffer
	if err := q.pages[name].ExecuteTemplate(&text, part, p); err != nil {
		return err
	}
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	q.w.WriteHeader(status)
	_, _ = q.w.Write(text.Bytes()) // fails only if the connection is lost
	return nil
}

// fault is an error with the page that shows it.
type fault struct {
	status      int
	title, text string
}

// Error implements error.
func (f *fault) Error() string { return f.title + ": " + f.text }

// Title and Text are for the template.
func (f *fault) Title() string { return f.title }

// Text says what to do.
func (f *fault) Text() string { return f.text }

// faultOf returns the page for an error. What the store says about a key is shown; other errors may name hosts and
// are only logged.
func (q *request) faultOf(err error) *fault {
	if known := (*fault)(nil); errors.As(err, &known) {
		return known
	}
	if told := (*keys.Error)(nil); errors.As(err, &told) {
		switch told.Code {
		case keys.CodeNoKey:
			return &fault{http.StatusNotFound, "Not found", sentence(told.Message)}
		case keys.CodeInvalid:
			return &fault{http.StatusBadRequest, "This cannot be done", sentence(told.Message)}
		case keys.CodeInFlight, keys.CodeEnded, keys.CodeReleased, keys.CodeNotEnded, keys.CodeChanged:
			return &fault{http.StatusConflict, "This cannot be done", sentence(told.Message)}
		}
	}
	place, hint := "The store", "A search by a client's key reads every record: write the digest, or the scope too."
	if errors.Is(err, errOutbox) {
		place, hint = "The database of the outbox", "Reload the page to try again."
	}
	q.options.Log.Error("dashboard: the store failed", "path", q.r.URL.Path, "error", err)
	if errors.Is(err, context.DeadlineExceeded) {
		return &fault{
			http.StatusServiceUnavailable, place + " did not answer in time", "It was given " + storeTimeout.String() + ". " + hint,
		}
	}
	return &fault{
		http.StatusServiceUnavailable, place + " cannot be reached", "Reload the page to try again. The log says what failed.",
	}
}

// fail answers with the page of an error.
func (q *request) fail(err error) {
	f := q.faultOf(err)
	part := "layout.html"
	if q.r.Header.Get("HX-Request") != "" {
		part = "content"
	}
	if err := q.renderPart(f.status, "error", part, q.page(f.title, "", f)); err != nil {
		q.options.Log.Error("dashboard: a page cannot be made", "path", q.r.URL.Path, "error", err)
		http.Error(q.w, "internal error", http.StatusInternalServerError)
	}
}

// sentence makes a sentence of an error message.
func sentence(message string) string {
	if message == "" {
		return ""
	}
	return strings.ToUpper(message[:1]) + message[1:] + "."
}
