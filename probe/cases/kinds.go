package cases

import (
	"net/http"
	"net/url"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

func sameJob(t *run) {
	r := t.NewFrom(*t.recipe.Variants.Async)
	first := t.First("first", r)
	job := first.Header.Get("Location")
	if first.Status != http.StatusAccepted || job == "" {
		t.Skipf("the first answer is %d with Location %q, not 202 with one", first.Status, job)
	}
	again := t.Send("retry", r)
	if at := again.Header.Get("Location"); again.OK() && at != job {
		t.Failf("the retry (%d) got Location %q, the first answer had %q: there are two jobs, or one is lost",
			again.No, at, job)
	}
	wantReplay(t, first, again)
	// The job may not have begun yet: fewer effects are no fault.
	if n := t.MustCount(1, t.shown([]wire.Answer{first, again})...); n > 1 {
		t.Failf("%s, want 1", probe.Amount(n))
	}
}

func sameSeeOther(t *run) {
	r := t.NewFrom(*t.recipe.Variants.SeeOther)
	first := t.Send("first", r)
	place := first.Header.Get("Location")
	if first.Status != http.StatusSeeOther || place == "" {
		t.Skipf("the first answer is %d with Location %q, not 303 with one", first.Status, place)
	}
	again := t.Send("retry", r)
	switch at := again.Header.Get("Location"); {
	case again.Status == 0:
		t.Failf("the retry (%d) got no answer: %v", again.No, again.Err)
	case refusedDuplicate(t, again):
	case again.Status != first.Status && t.rules.SameBytes, again.Status >= 400:
		t.Failf("the retry (%d) got %d, not the first answer: %s", again.No, again.Status, body(again))
	case at != place:
		t.Failf("the retry (%d) got Location %q, the first answer had %q: it ran again", again.No, at, place)
	}
	t.WantCount(1, first, again) // the answers show no identity but their Location
}

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
		t.Failf("the replay (%d) has %d of %d bytes, and does not say so", again.No, len(again.Body), len(first.Body))
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
	done := t.Send("followed, the same key", to)
	if done.Status == 0 {
		t.Brokenf("the followed request got no answer: %v", done.Err)
	}
	if !done.OK() {
		// It was refused: because the redirect has taken the key, or for another reason.
		other := t.Send("followed, another key", t.Keyed(to, probe.NewUUID()))
		if !other.OK() {
			t.Brokenf("where the redirect leads, the request got %d: %s", other.Status, body(other))
		}
		t.Warnf("the redirect has taken the key: a client that follows it (%d) gets %d, with another key (%d) %d", done.No,
			done.Status, other.No, other.Status)
		t.WantEffects(1, other)
		return
	}
	again := t.Send("all of it again", r)
	switch {
	case again.OK() || !t.rules.Replays && again.Status >= 400:
	case isRedirect(again):
		again = t.Send("followed again", redirected(t, r, again))
	default:
		t.Failf("the retry (%d) got %d, the first request (%d) was redirected", again.No, again.Status, first.No)
		t.WantEffects(1, done)
		return
	}
	wantReplay(t, done, again)
	t.WantEffects(1, done, again)
}

func isRedirect(a wire.Answer) bool {
	return (a.Status == http.StatusTemporaryRedirect || a.Status == http.StatusPermanentRedirect) &&
		a.Header.Get("Location") != ""
}

// redirected is the request that a client makes next. It ends the case if there is none.
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
		t.Skipf("the redirect leads to %s, where the credential must not be sent", to.Host)
	}
	return r.WithPath(to.RequestURI())
}
