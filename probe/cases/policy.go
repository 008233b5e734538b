package cases

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// durations are the words of a text that says how long something is kept.
var durations = regexp.MustCompile(
	`(?i)expir|retention|retain|\bttl\b|lifetime|\d\s*(h|seconds?|minutes?|hours?|days?|weeks?|months?)\b|\bPT?\d+[DHMS]`)

// publishedPolicy plays T04. Only the profiles of the draft ask for a published policy (§2.5.2); elsewhere its absence
// is recorded.
func publishedPolicy(t *run) {
	note := t.Infof
	if t.rules.Problem {
		note = t.Warnf
	}
	if t.recipe.PolicyURL == "" {
		note("the recipe names no policy_url: where does the API publish how long it keeps keys?")
		return
	}
	a := fetch(t, t.recipe.PolicyURL)
	switch {
	case a.Status == 0:
		note("the policy (%d) could not be fetched: %v", a.No, a.Err)
	case !a.OK():
		note("the policy (%d) was answered with %d", a.No, a.Status)
	case !durations.Match(a.Plain()):
		note("the policy (%d) does not say how long keys are kept", a.No)
	}
}

// fetch gets a page, which may be on another host, and follows redirects. Only the target gets the credential.
func fetch(t *run, address string) (a wire.Answer) {
	for range 5 {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return wire.Answer{Err: &url.Error{Op: "parse", URL: address, Err: url.InvalidHostError("not an http or https URL")}}
		}
		r := wire.Request{Method: http.MethodGet, Path: u.RequestURI(), Close: true}.With("Accept", "text/html, */*")
		if u.Scheme == t.recipe.Target.Scheme && u.Host == t.recipe.Target.Host {
			r = r.As(t.recipe.A)
		}
		client := wire.New(u, t.recipe.Limits.Timeout, t.meter)
		a = t.recordAt(u.Host, "policy at "+u.Host, r, client.Do(t.Context(), r))
		next, err := u.Parse(a.Header.Get("Location"))
		if a.Status < 300 || a.Status > 399 || a.Header.Get("Location") == "" || err != nil {
			return a
		}
		address = next.String()
	}
	return a
}

// firstSentDates plays T05 with dates that must be refused, each with a key of its own. A date in the future is a WARN:
// it outlives the record of its key.
func firstSentDates(t *run) {
	date := func(years int) string { return time.Now().AddDate(years, 0, 0).UTC().Format(http.TimeFormat) }
	try := func(what, date string) wire.Answer { return t.Send(what, t.New().Set(t.rules.FirstSent, date)) }
	wantRefusal(t, "a request first sent a year ago", try("a year ago", date(-1)), t.rules.Expired)
	for _, malformed := range []string{"yesterday", time.Now().UTC().Format(time.RFC3339), ""} {
		wantRefusal(t, "a request whose date is "+quoted(malformed), try("no date", malformed), t.rules.Malformed)
	}
	future := try("in a year", date(1))
	ran := 0
	if future.OK() {
		ran = 1
		t.Warnf("a request first sent in a year (%d) ran: it can be retried long after its record is deleted",
			future.No)
	} else {
		wantRefusal(t, "a request first sent in a year", future, slices.Concat(t.rules.Malformed, t.rules.Expired))
	}
	if t.Clean() {
		t.WantEffects(ran, future)
	}
}

// bothHeaders plays T06.
func bothHeaders(t *run) {
	whole := t.New()
	noDate := t.Send("the ID alone", whole.Without(t.rules.FirstSent))
	noID := t.Send("the date alone", whole.Without(t.keyHeader()))
	wantRefusal(t, "a request without "+t.rules.FirstSent, noDate, t.rules.Missing)
	wantRefusal(t, "a request without "+t.keyHeader(), noID, t.rules.Missing)
	if t.Clean() {
		t.WantEffects(0)
	}
	if noID.Status != 0 {
		t.Observe(func(o *probe.Observed) { o.Missing = noID.Status })
	}
}

// unsupportedRoute plays T07.
func unsupportedRoute(t *run) {
	a := t.Send("a request that asks to be repeatable", t.NewFrom(*t.recipe.Variants.Unkeyed))
	if wantRefusal(t, "a request to a path that does not support keys", a, []int{http.StatusNotImplemented}) {
		t.WantEffects(0)
	}
}
