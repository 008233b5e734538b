package cases

import (
	"net/http"
	"net/url"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// sameJob plays H11. The job may start after the answer, so fewer effects than one are not a fault.
func sameJob(t *run) {
	r := t.NewFrom(*t.recipe.Variants.Async)
	first := t.First("first", r)
	job := locationOf(t, first, http.StatusAccepted)
	again := t.Send("retry", r)
	if at := again.Header.Get("Location"); again.OK() && at != job {
		t.Failf("the retry (%d) got Location %q, the first answer had %q: two jobs run, or one is lost",
			again.No, at, job)
	}
	wantReplay(t, first, again)
	// The job may not have begun yet: fewer effects are no fault.
	if n := t.MustCount(1, t.shown([]wire.Answer{first, again})...); n > 1 {
		t.Failf("%s, want 1", probe.Amount(n))
	}
}

// sameSeeOther plays H18. The answers show no identity but their Location, so effects are judged only if the recipe has
// a count.
func sameSeeOther(t *run) {
	r := t.NewFrom(*t.recipe.Variants.SeeOther)
	first := t.Send("first", r)
	place := locationOf(t, first, http.StatusSeeOther)
	again := t.Send("retry", r)
	switch at := again.Header.Get("Location"); {
	case again.Status == 0:
		t.Failf("the retry (%d) got no answer: %v", again.No, again.Err)
	case refusedDuplicate(t, again):
	case again.Status != first.Status && t.rules.SameBytes, again.Status >= 400:
		t.Failf("the retry (%d) got %d, not the first answer: %s", again.No, again.Status, body(again))
	case at != place:
		t.Failf("the retry (%d) got Location %q, the first answer had %q: the operation ran again", again.No, at, place)
	}
	t.WantCount(1, first, again) // the answers show no identity but their Location
}

// locationOf returns the Location of a first answer. It ends the case unless the answer has that status and a Location.
func locationOf(t *run, first wire.Answer, status int) string {
	location := first.Header.Get("Location")
	if first.Status != status || location == "" {
		t.Skipf("the first answer is %d with Location %q, not %d with one", first.Status, location, status)
	}
	return location
}

// largeAnswer plays H13. Most layers limit what they save of an answer. Leaving the body out is fine if the replay says
// so; running the operation again is not.
func largeAnswer(t *run) {
	const mebibyte = 1 << 20 // what many layers save of an answer at most
	r := t.NewFrom(*t.recipe.Variants.Large)
	first := t.First("first", r)
	if len(first.Body) <= mebibyte {
		t.Skipf("the first answer has %d bytes, not more than 1 MiB", len(first.Body))
	}
	again := t.Send("retry", r)
	switch {
	case again.Status != 0 && omitted(again): // the client knows what it does not get
	case again.OK() && len(again.Body) < len(first.Body) && t.rules.SameBytes:
		t.Failf("the replay (%d) has %d of %d bytes, but does not say so", again.No, len(again.Body), len(first.Body))
	default:
		wantReplay(t, first, again)
	}
	t.WantEffects(1, first, again)
}

// followedRedirect follows a redirect with the same key, method and body, as RFC 9110 says, and then does all of it
// again.
func followedRedirect(t *run) {
	r := t.NewFrom(*t.recipe.Variants.Redirect)
	first := t.Send("first", r)
	to := redirected(t, r, first)
	done := t.Send("redirected request, same key", to)
	if done.Status == 0 {
		t.Brokenf("the followed request got no answer: %v", done.Err)
	}
	if !done.OK() {
		// It was refused: because the redirect has taken the key, or for another reason.
		other := t.Send("redirected request, another key", t.Keyed(to, newKey(t)))
		if !other.OK() {
			t.Brokenf("at the redirect's target the request got %d: %s", other.Status, body(other))
		}
		t.Warnf("the redirect has used up the key: a client that follows it (%d) gets %d, with another key "+
			"(%d) %d", done.No,
			done.Status, other.No, other.Status)
		t.WantEffects(1, other)
		return
	}
	again := t.Send("the first request again", r)
	switch {
	case again.OK() || !t.rules.Replays && again.Status >= 400:
	case isRedirect(again):
		again = t.Send("followed again", redirected(t, r, again))
	default:
		t.Failf("the retry (%d) got %d, although the first request (%d) was redirected", again.No, again.Status, first.No)
		t.WantEffects(1, done)
		return
	}
	wantReplay(t, done, again)
	t.WantEffects(1, done, again)
}

// isRedirect reports whether an answer is a redirect that keeps method and body (RFC 9110 §15.4.8, §15.4.9).
func isRedirect(a wire.Answer) bool {
	return (a.Status == http.StatusTemporaryRedirect || a.Status == http.StatusPermanentRedirect) &&
		a.Header.Get("Location") != ""
}

// redirected returns the request that a client makes next. It ends the case if there is none, or if it would take the
// credential to another host.
func redirected(t *run, r wire.Request, a wire.Answer) wire.Request {
	location, err := url.Parse(a.Header.Get("Location"))
	if !isRedirect(a) || err != nil {
		t.Skipf("the answer (%d) is %d, not 307 or 308 with a Location", a.No, a.Status)
	}
	here := &url.URL{Scheme: t.recipe.Target.Scheme, Host: t.recipe.Target.Host, Path: "/"}
	from, err := here.Parse(r.Path)
	if err != nil {
		t.Brokenf("the path %q cannot be read: %v", r.Path, err)
	}
	to := from.ResolveReference(location)
	if to.Scheme != here.Scheme || to.Host != here.Host {
		t.Skipf("the redirect leads to another host, %s, which must not get the credential", to.Host)
	}
	return r.WithPath(to.RequestURI())
}
