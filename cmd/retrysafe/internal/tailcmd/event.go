package tailcmd

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/proxy"
)

// Event is one line of the stream, in JSON. It has what the proxy's log has, and the caller's scope: never a key.
type Event struct {
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	Path   string    `json:"path"`
	// Route is the pattern that matched; empty for the default route.
	Route string `json:"route"`
	// Outcome is one of Outcomes.
	Outcome string `json:"outcome"`
	// Status is that of the answer; 0: there is none, or none yet.
	Status int `json:"status,omitempty"`
	// Key is a digest; empty: the request was refused before a key was found.
	Key     string  `json:"key,omitempty"`
	Attempt int     `json:"attempt,omitempty"`
	Scope   string  `json:"scope,omitempty"`
	Problem string  `json:"problem,omitempty"`
	Took    float64 `json:"took_seconds,omitempty"`
	Error   string  `json:"error,omitempty"`
	// Lost is how many events were left out before this one, because the reader was too slow.
	Lost int64 `json:"lost,omitempty"`
}

// The outcomes besides the events of the guard: forwarded is that of a request whose attempt begins, refused that of one
// that got no key, accepted that of one that the inbox has saved, and known that of one that it had before.
const (
	forwarded = "forwarded"
	refused   = "refused"
	accepted  = "accepted"
	known     = "known"
)

func eventOf(e proxy.Event, now time.Time) Event {
	told := Event{
		Time: now, Method: e.Method, Path: e.Path, Route: e.Route, Outcome: outcomeOf(e), Status: e.Status, Attempt: e.Attempt,
		Scope: e.Scope, Problem: string(e.Refusal), Took: e.Took.Seconds(),
	}
	if e.Kind != 0 || e.Accepted {
		told.Key = e.Key.String()
	}
	if e.Err != nil {
		told.Error = e.Err.Error()
	}
	return told
}

func outcomeOf(e proxy.Event) string {
	switch {
	case e.Begun:
		return forwarded
	case e.Known:
		return known
	case e.Accepted:
		return accepted
	case e.Kind == 0:
		return refused
	}
	return e.Kind.String()
}

// Outcomes are the names that Event.Outcome can have.
func Outcomes() []string {
	all := []string{forwarded, refused, accepted, known}
	for k := retrysafe.AttemptStarted; k.String() != "unknown"; k++ {
		all = append(all, k.String())
	}
	return all
}

// filter selects events. What is empty selects all.
type filter struct{ route, outcome, scope string }

// everythingElse is the default route in a filter, as in metrics.
const everythingElse = "everything else"

// filterOf reads the query of a request for events.
func filterOf(query url.Values, routes []string) (f filter, err error) {
	for name, values := range query {
		field, ok := map[string]*string{"route": &f.route, "outcome": &f.outcome, "caller": &f.scope}[name]
		if !ok || len(values) != 1 {
			return f, fmt.Errorf("unknown or repeated parameter %q: there are route, outcome and caller, once each", name)
		}
		*field = values[0]
	}
	routes = append(slices.Clone(routes), everythingElse)
	switch {
	case f.outcome != "" && !slices.Contains(Outcomes(), f.outcome):
		return f, fmt.Errorf("unknown outcome %q; there are: %s", f.outcome, strings.Join(Outcomes(), ", "))
	case f.route != "" && !slices.Contains(routes, f.route):
		return f, fmt.Errorf("unknown route %q; this proxy has: %s", f.route, strings.Join(routes, ", "))
	}
	return f, nil
}

func (f filter) selects(e proxy.Event) bool {
	route := e.Route
	if route == "" {
		route = everythingElse
	}
	return (f.route == "" || f.route == route) && (f.outcome == "" || f.outcome == outcomeOf(e)) &&
		(f.scope == "" || f.scope == e.Scope)
}
