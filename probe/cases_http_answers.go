package probe

import (
	"net/http"
	"net/url"
	"strings"
)

func sameJob(t *Trial) {
	r := t.Keyed(t.From(*t.Recipe.Variants.Async, t.Intent()), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	job := first.Header.Get("Location")
	if first.Status != http.StatusAccepted || job == "" {
		t.NAf("the first answer is %d with Location %q, not 202 with one", first.Status, job)
		return
	}
	again := t.Send("retry", r)
	if at := again.Header.Get("Location"); again.OK() && at != job {
		t.Failf("the retry (%d) got Location %q, the first answer had %q: there are two jobs, or one is lost", again.No, at, job)
	}
	t.wantReplay(first, again)
	// The job may not have begun yet: fewer effects are no fault.
	if n, err := t.Effects(1, first, again); err != nil {
		t.Brokenf("the effects could not be counted: %v", err)
	} else if n > 1 {
		t.Failf("%s, want 1", effects(n))
	}
}

func sameSeeOther(t *Trial) {
	r := t.Keyed(t.From(*t.Recipe.Variants.SeeOther, t.Intent()), t.NewKey())
	first := t.Send("first", r)
	place := first.Header.Get("Location")
	if first.Status != http.StatusSeeOther || place == "" {
		t.NAf("the first answer is %d with Location %q, not 303 with one", first.Status, place)
		return
	}
	again := t.Send("retry", r)
	switch at := again.Header.Get("Location"); {
	case again.Status == 0:
		t.Failf("the retry (%d) got no answer: %v", again.No, again.Err)
	case t.refusedDuplicate(again):
	case again.Status != first.Status && t.Rules.SameBytes, again.Status >= 400:
		t.Failf("the retry (%d) got %d, not the first answer: %s", again.No, again.Status, trimmed(again.Body, 200))
	case at != place:
		t.Failf("the retry (%d) got Location %q, the first answer had %q: it ran again", again.No, at, place)
	}
	if t.Recipe.Count != nil { // the answers show no identity but their Location
		t.WantEffects(1, first, again)
	}
}

// aMebibyte is what many layers save of an answer at most.
const aMebibyte = 1 << 20

func largeAnswer(t *Trial) {
	r := t.Keyed(t.From(*t.Recipe.Variants.Large, t.Intent()), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	if len(first.Body) <= aMebibyte {
		t.NAf("the first answer has %d bytes, not more than 1 MiB", len(first.Body))
		return
	}
	again := t.Send("retry", r)
	switch {
	case again.Status != 0 && omitted(again): // the client knows what it does not get
	case again.OK() && len(again.Body) < len(first.Body) && t.Rules.SameBytes:
		t.Failf("the replay (%d) has %d of %d bytes, and does not say so", again.No, len(again.Body), len(first.Body))
	default:
		t.wantReplay(first, again)
	}
	t.WantEffects(1, first, again)
}

// omitted reports whether an answer says that its body was left out: the parameter body=?0 of Idempotency-Status, 303 with the place
// where it is, or an error whose text says so.
func omitted(a Answer) bool {
	switch {
	case strings.Contains(joined(a.Header.Values("Idempotency-Status")), "body=?0"):
		return true
	case a.Status == http.StatusSeeOther:
		return a.Header.Get("Location") != ""
	case a.OK():
		return false
	}
	text := strings.ToLower(string(a.plain()))
	return strings.Contains(text, "omitted") || strings.Contains(text, "too large") || strings.Contains(text, "not kept")
}

// followedRedirect follows a redirect with the same key, method and body, as RFC 9110 says, and then does all of it again.
func followedRedirect(t *Trial) {
	r := t.Keyed(t.From(*t.Recipe.Variants.Redirect, t.Intent()), t.NewKey())
	first := t.Send("first", r)
	to, ok := t.redirected(r, first)
	if !ok {
		return
	}
	done := t.Send("followed, the same key", to)
	switch {
	case done.Status == 0:
		t.Brokenf("the followed request got no answer: %v", done.Err)
		return
	case !done.OK():
		t.blockedRedirect(done, to)
		return
	}
	answers := []Answer{done}
	again := t.Send("all of it again", r)
	if again.OK() || !t.Rules.Replays && again.Status >= 400 {
		t.wantReplay(done, again)
		answers = append(answers, again)
	} else if to, ok = t.redirected(r, again); ok {
		last := t.Send("followed again", to)
		t.wantReplay(done, last)
		answers = append(answers, last)
	} else {
		t.Failf("the retry (%d) got %d, the first request (%d) was redirected", again.No, again.Status, first.No)
	}
	t.WantEffects(1, answers...)
}

// redirected is the request that a client makes next.
func (t *Trial) redirected(r Request, a Answer) (Request, bool) {
	location, err := url.Parse(a.Header.Get("Location"))
	if a.Status != http.StatusTemporaryRedirect && a.Status != http.StatusPermanentRedirect || err != nil || a.Header.Get("Location") == "" {
		t.NAf("the answer (%d) is %d, not 307 or 308 with a Location", a.No, a.Status)
		return r, false
	}
	here := &url.URL{Scheme: t.Recipe.Target.Scheme, Host: t.Recipe.Target.Host, Path: "/"}
	from, err := here.Parse(r.Path)
	if err != nil {
		t.Brokenf("the path %q cannot be read: %v", r.Path, err)
		return r, false
	}
	to := from.ResolveReference(location)
	if to.Scheme != here.Scheme || to.Host != here.Host {
		t.NAf("the redirect leads to %s, where the credential must not be sent", to.Host)
		return r, false
	}
	return r.WithPath(to.RequestURI()), true
}

// blockedRedirect looks at why a followed request was refused: because the redirect has taken the key, or for another reason.
func (t *Trial) blockedRedirect(refused Answer, to Request) {
	other := t.Send("followed, another key", t.Keyed(to, t.NewKey()))
	if !other.OK() {
		t.Brokenf("where the redirect leads, the request got %d: %s", other.Status, trimmed(other.Body, 200))
		return
	}
	t.Warnf("the redirect has taken the key: a client that follows it (%d) gets %d, with another key (%d) %d", refused.No, refused.Status, other.No, other.Status)
	t.WantEffects(1, other)
}
