package grpcprobe

import (
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/probe"
)

func hasPlace(text string) bool { return strings.Contains(text, "{{") }

func retry(t *trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.works("first", r)
	if !ok {
		return
	}
	again := t.Send("retry", r)
	t.wantReplay(first, again)
	t.WantEffects(1, first, again)
}

// wantReplay notes a FAIL unless a retry's answer shows what the first one showed.
func (t *trial) wantReplay(first, again probe.Answer) bool {
	switch {
	case again.Status == 0:
		t.Failf("the retry (%d) got %s", again.No, said(again))
	case !again.OK():
		t.Failf("the retry (%d) got %s instead of the first response", again.No, said(again))
	case t.identity(first) != t.identity(again):
		t.Failf("the retry (%d) shows %q, the first response %q: it ran again", again.No, t.identity(again), t.identity(first))
	case t.rules.SameBytes && !first.Same(again):
		t.Failf("the retry (%d) got another response: %s instead of %s", again.No, shortened(again.Body, 120), shortened(first.Body, 120))
	default:
		return true
	}
	return false
}

func anotherRequest(t *trial) {
	v, key := t.Intent(), t.NewKey()
	first, ok := t.works("first", t.Keyed(t.For(v), key))
	if !ok {
		return
	}
	other := t.Send("same key, another request", t.Keyed(t.For(v.Changed(t.Recipe.Request)), key))
	ran := other.OK() && t.identity(other) != t.identity(first)
	switch {
	case other.Status == 0:
		t.Brokenf("the other request (%d) got %s", other.No, said(other))
	case ran:
		t.Failf("the other request (%d) was carried out under a key that had been used: it shows %q, the first response %q", other.No, t.identity(other), t.identity(first))
	case other.OK() && t.rules.Compares:
		t.Failf("the other request (%d) got the response of the first one, as if it had been carried out", other.No)
	case other.OK():
		t.Infof("another request under the same key gets the first response")
	default:
		t.judgeMismatch(other)
	}
	if !ran {
		t.WantEffects(1, first)
	}
}

// judgeMismatch looks at the code that refuses another request.
func (t *trial) judgeMismatch(a probe.Answer) {
	t.Observe(func(o *probe.Observed) { o.Mismatch = int(codeOf(a)) })
	want := t.rules.mismatch
	switch {
	case len(want) == 0:
		t.Infof("another request under the same key is refused with %s", said(a))
	case right(a, want):
	case nothingHappened(codeOf(a)):
		t.Failf("the other request (%d) was refused with %s, which clients retry, and it can never succeed; %s says so", a.No, a.Code, want)
	case unclear(codeOf(a)):
		t.Failf("the other request (%d) was refused with %s, which leaves open whether it was carried out; %s says that it was not", a.No, a.Code, want)
	default:
		t.Warnf("the other request (%d) was refused with %s; %s is the code for it", a.No, a.Code, want)
	}
}

func malformedKey(t *trial) {
	malformed := `"` + t.NewKey()
	r := t.Keyed(t.Fresh(), malformed)
	a := t.Send("malformed key", r)
	want := t.rules.malformed
	judged := len(want) > 0 && !t.inField()
	if !a.OK() && a.Status != 0 {
		t.Observe(func(o *probe.Observed) { o.Malformed = int(codeOf(a)) })
	}
	switch {
	case a.Status == 0:
		t.Failf("the call (%d) with the key %s got %s", a.No, malformed, said(a))
	case a.OK() && judged:
		t.Failf("the call (%d) was carried out with the key %s, which is no key", a.No, malformed)
	case a.OK():
		t.Infof("%s is taken as a key", malformed)
	case !judged:
		t.Infof("%s is refused with %s", malformed, said(a))
	case !right(a, want):
		t.Warnf("the malformed key (%d) was refused with %s; %s is the code for it", a.No, a.Code, want)
	}
	if !a.OK() {
		t.WantEffects(0, a)
	}
}

func anotherCaller(t *trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	mine, ok := t.works("caller A", r)
	if !ok {
		return
	}
	theirs := t.Send("caller B, same key", r.As(t.Recipe.B))
	switch {
	case theirs.Status == 0:
		t.Brokenf("caller B (%d) got %s", theirs.No, said(theirs))
	case t.shows(theirs, t.identity(mine)):
		t.Failf("caller B (%d) was shown %q, which caller A created (%d)", theirs.No, t.identity(mine), mine.No)
	case theirs.OK():
		t.WantEffects(2, mine, theirs)
	case codeOf(theirs) == codes.Unauthenticated || codeOf(theirs) == codes.PermissionDenied:
		t.Brokenf("caller B (%d) may not make the call: %s", theirs.No, said(theirs))
	case t.rules.Name == "ietf":
		t.Failf("caller B (%d) got %s: whoever takes a key first keeps others from using it", theirs.No, said(theirs))
	default:
		t.Infof("keys are shared by all callers: caller B is refused with %s", said(theirs))
	}
}

// shows reports whether an answer shows somebody an identity; in the text of an error, one that is not there by chance.
func (t *trial) shows(a probe.Answer, id string) bool {
	return t.identity(a) == id || !a.OK() && len(id) >= 8 && strings.Contains(string(a.Body), id)
}

func marker(t *trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.works("first", r)
	if !ok {
		return
	}
	again := t.Send("retry", r)
	if !t.wantReplay(first, again) {
		return
	}
	name, value := t.rules.Marker, t.rules.MarkerValue
	if name == "" {
		t.recordMarker(first, again)
		return
	}
	if strings.EqualFold(first.Header.Get(name), value) {
		t.Failf("the first response (%d) says %s: %s, as if it were a replay", first.No, name, value)
	}
	switch {
	case strings.EqualFold(again.Header.Get(name), value):
		t.Observe(func(o *probe.Observed) { o.Marker = name })
	case again.Trailer.Get(name) != "":
		t.Warnf("the replay (%d) says %s in its trailer: it belongs into the header metadata, which is there before the response", again.No, name)
	default:
		t.Warnf("the replay (%d) does not say that it is one: no %s: %s in its metadata", again.No, name, value)
	}
}

// recordMarker looks for metadata that only a replay has.
func (t *trial) recordMarker(first, again probe.Answer) {
	for name := range again.Header {
		if first.Header.Get(name) == "" && strings.Contains(strings.ToLower(name), "repl") {
			t.Observe(func(o *probe.Observed) { o.Marker = strings.ToLower(name) })
			t.Infof("replays have the metadata %s", strings.ToLower(name))
			return
		}
	}
	t.Infof("replays are not marked")
}
