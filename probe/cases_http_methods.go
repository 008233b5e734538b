package probe

import (
	"bytes"
	"net/http"
	"slices"
	"time"
)

// keyOnGet reads with a key, changes what is read, and reads again.
func keyOnGet(t *Trial) {
	if t.keyInBody() {
		t.NAf("profile %s has the key in the body", t.Rules.Name)
		return
	}
	plain := t.From(*t.Recipe.Variants.Read, t.Intent())
	keyed := t.Keyed(plain, t.NewKey())
	before := t.Send("GET with a key", keyed)
	if !before.OK() {
		t.refusedRead(before, plain)
		return
	}
	if _, ok := t.Works("a change", t.Keyed(t.Fresh(), t.NewKey())); !ok {
		return
	}
	if !t.changed(before, plain) {
		t.NAf("the representation has not changed: variants.read does not show what the request changes")
		return
	}
	after := t.Send("GET again, the same key", keyed)
	switch {
	case !after.OK():
		t.Failf("the second GET (%d) got %d %s%s", after.No, after.Status, errText(after), trimmed(after.Body, 200))
	case bytes.Equal(after.Body, before.Body):
		t.Failf("the second GET (%d) got what the first one (%d) got, though it has changed since: it was answered from the record", after.No, before.No)
	}
	if marker := t.markerOf(after); marker != "" && t.Rules.FirstSent == "" {
		t.Failf("the second GET (%d) has %s: %s", after.No, marker, after.Header.Get(marker))
	}
}

// refusedRead looks at whether it is the key for which a GET was refused.
func (t *Trial) refusedRead(a Answer, plain Request) {
	without := t.Send("GET without a key", plain)
	if without.OK() {
		t.Failf("GET with a key (%d) got %d, without it (%d) %d", a.No, a.Status, without.No, without.Status)
		return
	}
	t.Brokenf("GET got %d %s%s", without.Status, errText(without), trimmed(without.Body, 200))
}

// changed waits until a GET without a key shows something new.
func (t *Trial) changed(before Answer, plain Request) bool {
	for began := time.Now(); time.Since(began) < settle; {
		if now := t.Send("GET without a key", plain); now.OK() && !bytes.Equal(now.plain(), before.plain()) {
			return true
		}
		t.waitUntil(time.Now().Add(100 * time.Millisecond))
		if t.ctx.Err() != nil {
			return false
		}
	}
	return false
}

// keyOnPutAndDelete retries the methods that are idempotent without a key.
func keyOnPutAndDelete(t *Trial) {
	v := t.Intent()
	for _, template := range []*Template{t.Recipe.Variants.Put, t.Recipe.Variants.Delete} {
		r := t.From(*template, v)
		if t.keyInBody() && !bytes.HasPrefix(bytes.TrimSpace(r.Body), []byte("{")) {
			t.Infof("%s has no body, which carries the key in profile %s", r.Method, t.Rules.Name)
			continue
		}
		r = t.Keyed(r, t.NewKey())
		first, ok := t.Works(r.Method, r)
		if !ok {
			return
		}
		again := t.Send(r.Method+" again", r)
		t.judgeMethod(r.Method, first, again)
	}
}

func (t *Trial) judgeMethod(method string, first, again Answer) {
	switch promised := slices.Contains(t.Rules.Methods, method); {
	case again.Status == 0:
		t.Failf("%s again (%d) got no answer: %v", method, again.No, again.Err)
	case promised:
		t.wantReplay(first, again)
	case again.ServerError():
		t.Failf("%s again (%d) got %d", method, again.No, again.Status)
	default:
		t.Infof("%s got %d, the same key again %d", method, first.Status, again.Status)
	}
}

// keyBeforePrecondition retries a change whose If-Match was right when it was made.
func keyBeforePrecondition(t *Trial) {
	v := t.Intent()
	r := t.From(*t.Recipe.Variants.Patch, v)
	if put := t.Recipe.Variants.Put; put != nil {
		made, ok := t.Works("PUT, without a key", t.From(*put, v))
		if !ok {
			return
		}
		if tag := made.Header.Get("ETag"); tag != "" && r.Get("If-Match") == "" {
			r = r.With("If-Match", tag)
		}
	}
	if r.Get("If-Match") == "" {
		t.NAf("there is no If-Match: neither in variants.patch, nor an ETag from variants.put")
		return
	}
	r = t.Keyed(r, t.NewKey())
	first, ok := t.Works(r.Method+" with If-Match", r)
	if !ok {
		return
	}
	again := t.Send("retry", r)
	switch promised := slices.Contains(t.Rules.Methods, r.Method); {
	case again.Status == http.StatusPreconditionFailed && promised:
		t.Failf("the retry (%d) got 412: its own change has made its If-Match wrong", again.No)
	case promised:
		t.wantReplay(first, again)
	default:
		t.Infof("%s got %d, the same key again %d", r.Method, first.Status, again.Status)
	}
}

// earlyData sends what a server may have got in early data, and retries when the handshake is over.
func earlyData(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	early := r.With("Early-Data", "1")
	first := t.Send("in early data", early)
	switch {
	case first.Status == http.StatusTooEarly:
		t.afterTooEarly(r)
	case first.OK():
		again := t.Send("retry, not in early data", r)
		t.wantReplay(first, again)
		t.onceEarly(first, again, t.Send("retry, in early data", early))
	default:
		t.Failf("the request in early data (%d) got %d %s%s", first.No, first.Status, errText(first), trimmed(first.Body, 200))
	}
}

// afterTooEarly retries a request that was refused with 425: it must run now.
func (t *Trial) afterTooEarly(r Request) {
	again := t.Send("retry, not in early data", r)
	switch {
	case again.Status == http.StatusTooEarly:
		t.Failf("the retry (%d) got 425 again: it was saved as the answer", again.No)
	case !again.OK():
		t.Failf("the retry (%d) of a request that was refused with 425 got %d %s%s", again.No, again.Status, errText(again), trimmed(again.Body, 200))
	}
	if again.OK() {
		t.WantEffects(1, again)
	}
}

// onceEarly wants one effect, and of a last retry the first answer, or 425.
func (t *Trial) onceEarly(first, again, last Answer) {
	if last.Status != http.StatusTooEarly {
		t.wantReplay(first, last)
	}
	t.WantEffects(1, first, again, last)
}
