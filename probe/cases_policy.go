package probe

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// publishedPolicy looks for the policy where the recipe says it is.
func publishedPolicy(t *Trial) {
	note := t.Infof
	if t.Rules.Problem {
		note = t.Warnf
	}
	if t.Recipe.PolicyURL == "" {
		note("the recipe names no policy_url: where does the API publish how long it keeps keys?")
		return
	}
	a := t.fetch(t.Recipe.PolicyURL)
	switch {
	case a.Status == 0:
		note("the policy (%d) could not be fetched: %v", a.No, a.Err)
	case !a.OK():
		note("the policy (%d) was answered with %d", a.No, a.Status)
	case !speaksOfRetention(a.plain()):
		note("the policy (%d) says nothing of how long keys are kept", a.No)
	}
}

// times are the words that a text uses which says how long something is kept.
var times = regexp.MustCompile(`(?i)expir|retention|retain|\bttl\b|lifetime|\d\s*(h|seconds?|minutes?|hours?|days?|weeks?|months?)\b|\bPT?\d+[DHMS]`)

func speaksOfRetention(body []byte) bool { return times.Match(body) }

// fetch gets a page, which may be at another host, following redirects. The credential goes to the target only.
func (t *Trial) fetch(address string) (a Answer) {
	for range 5 {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return Answer{Err: &url.Error{Op: "parse", URL: address, Err: url.InvalidHostError("not an http or https URL")}}
		}
		a = t.get(u)
		next, err := u.Parse(a.Header.Get("Location"))
		if a.Status < 300 || a.Status > 399 || a.Header.Get("Location") == "" || err != nil {
			return a
		}
		address = next.String()
	}
	return a
}

// get gets one page.
func (t *Trial) get(u *url.URL) Answer {
	r := Request{Method: http.MethodGet, Path: u.RequestURI(), Header: []HeaderLine{{"Accept", "text/html, */*"}}, Close: true}
	w := newWire(u, t.run.wire.limits)
	w.meter = t.run.wire.meter
	if u.Scheme == t.Recipe.Target.Scheme && u.Host == t.Recipe.Target.Host {
		r = r.As(t.Recipe.A)
	}
	a := t.record("policy at "+u.Host, r, w.exchange(t.ctx, r))
	t.mu.Lock()
	defer t.mu.Unlock()
	shown := &t.exchange[a.No-1].Request
	*shown = strings.Replace(*shown, "\r\nHost: "+t.run.wire.host+"\r\n", "\r\nHost: "+u.Host+"\r\n", 1)
	return a
}

// httpDate is a time as headers have it.
func httpDate(at time.Time) string { return at.UTC().Format(http.TimeFormat) }

// firstSentDates tries dates that must be refused, each with a key of its own.
func firstSentDates(t *Trial) {
	try := func(what, date string) Answer {
		return t.Send(what, t.Keyed(t.Fresh(), t.NewKey()).Set(t.Rules.FirstSent, date))
	}
	t.wantRefusal("a request first sent a year ago", try("a year ago", httpDate(time.Now().AddDate(-1, 0, 0))), t.Rules.Expired)
	for _, no := range []string{"yesterday", time.Now().UTC().Format(time.RFC3339), ""} {
		t.wantRefusal("a request whose date is "+quoted(no), try("no date", no), t.Rules.Malformed)
	}
	future := try("a year ahead", httpDate(time.Now().AddDate(1, 0, 0)))
	ran := 0
	if future.OK() {
		ran = 1
		t.Warnf("a request first sent a year ahead (%d) was carried out: it can be retried long after its record is gone", future.No)
	} else {
		t.wantRefusal("a request first sent a year ahead", future, slices.Concat(t.Rules.Malformed, t.Rules.Expired))
	}
	if t.Clean() {
		t.WantEffects(ran, future)
	}
}

func bothHeaders(t *Trial) {
	whole := t.Keyed(t.Fresh(), t.NewKey())
	noDate := t.Send("the ID alone", whole.Without(t.Rules.FirstSent))
	noID := t.Send("the date alone", whole.Without(t.keyHeader()))
	t.wantRefusal("a request without "+t.Rules.FirstSent, noDate, t.Rules.Missing)
	t.wantRefusal("a request without "+t.keyHeader(), noID, t.Rules.Missing)
	if t.Clean() {
		t.WantEffects(0)
	}
	if noID.Status != 0 {
		t.Observe(func(o *Observed) { o.Missing = noID.Status })
	}
}

func unsupportedRoute(t *Trial) {
	plain := t.From(*t.Recipe.Variants.Unkeyed, t.Intent())
	a := t.Send("a request that asks to be repeatable", t.Keyed(plain, t.NewKey()))
	if t.wantRefusal("a request to a path that does not support it", a, []int{http.StatusNotImplemented}) {
		t.WantEffects(0)
	}
}
