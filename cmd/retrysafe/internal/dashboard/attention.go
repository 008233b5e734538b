package dashboard

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

// Bounds of the page of keys that wait for a person.
const (
	maxAttentionPages = 5 // of the store
	maxAttention      = 500
)

// attentionPage is the data of the page.
type attentionPage struct {
	OnDemand bool
	Groups   []scopeGroup
	N        int
	More     bool
	Most     int    // keys in one decision
	Unread   string // as in keys.Page
	HasLinks bool
	Proposed []*waitingProposal
}

// scopeGroup has the keys of one caller, the one with the least time left first.
type scopeGroup struct {
	Scope string
	Keys  []waitingKey
	Least float64
}

// waitingKey is a key, and its links.
type waitingKey struct {
	keys.Record
	Links []shownLink
}

// attention shows the abandoned keys. When the time of a key has passed, a retry runs the operation as if it were new,
// so those with the least time come first.
func (q *request) attention() error {
	data := attentionPage{
		OnDemand: q.scans && q.r.FormValue("read") == "", Most: maxDecisions, HasLinks: len(q.options.Links) > 0,
	}
	proposed, err := q.proposals()
	if err != nil {
		return err
	}
	for _, p := range proposed {
		data.Proposed = append(data.Proposed, waitingOf(p))
	}
	if data.OnDemand {
		return q.render(http.StatusOK, "attention", "Waiting for a person", "attention", data)
	}
	var all []keys.Record
	query := keys.Query{State: keys.Abandoned}
	for range maxAttentionPages {
		page, err := q.keys.List(q.r.Context(), query)
		if err != nil {
			return err
		}
		all, data.Unread = append(all, page.Keys...), cmp.Or(data.Unread, page.Unread)
		query.Before, data.More = page.Next, page.Next != 0
		if !data.More {
			break
		}
	}
	byTime := func(a, b keys.Record) int { return cmp.Compare(a.KeyLeft, b.KeyLeft) }
	slices.SortStableFunc(all, byTime)
	if len(all) > maxAttention {
		all, data.More = all[:maxAttention], true
	}
	data.N = len(all)
	places := map[string]int{}
	for _, r := range all {
		i, ok := places[r.Scope]
		if !ok {
			i = len(data.Groups)
			places[r.Scope] = i
			data.Groups = append(data.Groups, scopeGroup{Scope: r.Scope, Least: r.KeyLeft})
		}
		data.Groups[i].Keys = append(data.Groups[i].Keys, waitingKey{r, q.linksOf(r)})
	}
	return q.render(http.StatusOK, "attention", "Waiting for a person", "attention", data)
}
