package cases

import (
	"bytes"
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// keyOnGet plays H04. It reads with a key, changes what it has read, and reads again with the same key.
func keyOnGet(t *run) {
	requireNoBodyKeys(t)
	plain := t.From(*t.recipe.Variants.Read, t.intents.Next())
	keyed := t.Keyed(plain, newKey(t))
	before := t.Send("GET with a key", keyed)
	if !before.OK() {
		without := t.Send("GET without a key", plain)
		if !without.OK() {
			t.Brokenf("GET got %d %s", without.Status, body(without))
		}
		t.Failf("GET with a key (%d) got %d, without it (%d) %d", before.No, before.Status, without.No, without.Status)
		return
	}
	t.First("a change", t.New())
	waitForChange(t, before, plain)
	after := t.Send("GET again, the same key", keyed)
	switch {
	case !after.OK():
		t.Failf("the second GET (%d) got %d %s", after.No, after.Status, body(after))
	case bytes.Equal(after.Body, before.Body):
		t.Failf("the second GET (%d) got the same as the first one (%d), although the resource has changed "+
			"since: it got the saved answer",
			after.No, before.No)
	}
	if marker := markerOf(t, after); marker != "" && t.rules.FirstSent == "" {
		t.Failf("the second GET (%d) has %s: %s", after.No, marker, after.Header.Get(marker))
	}
}

// waitForChange waits until a GET without a key shows another representation. It ends the case if none does.
func waitForChange(t *run, before wire.Answer, plain wire.Request) {
	for began := time.Now(); time.Since(began) < 2*time.Second; {
		if now := t.Send("GET without a key", plain); now.OK() && !bytes.Equal(now.Plain(), before.Plain()) {
			return
		}
		if !t.Pause(100 * time.Millisecond) {
			break
		}
	}
	t.Skipf("the answer to variants.read has not changed: it does not show what the request changes")
}

// keyOnPutAndDelete plays H05. PUT and DELETE are idempotent without a key (RFC 9110 §9.2.2), so a replay is wanted
// only where the profile promises one.
func keyOnPutAndDelete(t *run) {
	v := t.intents.Next()
	for _, template := range []*probe.Template{t.recipe.Variants.Put, t.recipe.Variants.Delete} {
		r := t.From(*template, v)
		if t.keyInBody() && !isForm(r) && !bytes.HasPrefix(bytes.TrimSpace(r.Body), []byte("{")) {
			t.Infof("%s has no body, but %s", r.Method, whoKeysBody(t))
			continue
		}
		r = t.Keyed(r, newKey(t))
		first := t.First(r.Method, r)
		again := t.Send(r.Method+" again", r)
		switch promised := slices.Contains(t.rules.Methods, r.Method); {
		case again.Status == 0:
			t.Failf("%s again (%d) got no answer: %v", r.Method, again.No, again.Err)
		case promised:
			wantReplay(t, first, again)
		case again.ServerError():
			t.Failf("%s again (%d) got %d", r.Method, again.No, again.Status)
		default:
			t.Infof("%s got %d, the same key again %d", r.Method, first.Status, again.Status)
		}
	}
}

// keyBeforePrecondition plays H10. The first attempt changes the ETag, so the If-Match of a retry is always outdated.
// Only a key that is looked up first can give the first answer.
func keyBeforePrecondition(t *run) {
	v := t.intents.Next()
	r := t.From(*t.recipe.Variants.Patch, v)
	if put := t.recipe.Variants.Put; put != nil {
		tag := t.First("PUT, without a key", t.From(*put, v)).Header.Get("ETag")
		if tag != "" && r.Get("If-Match") == "" {
			r = r.With("If-Match", tag)
		}
	}
	if r.Get("If-Match") == "" {
		t.Skipf("there is no If-Match: neither in variants.patch, nor an ETag from variants.put")
	}
	r = t.Keyed(r, newKey(t))
	first := t.First(r.Method+" with If-Match", r)
	again := t.Send("retry", r)
	switch promised := slices.Contains(t.rules.Methods, r.Method); {
	case again.Status == http.StatusPreconditionFailed && promised:
		t.Failf("the retry (%d) got 412, because its own first attempt changed the ETag", again.No)
	case promised:
		wantReplay(t, first, again)
	default:
		t.Infof("%s got %d, the same key again %d", r.Method, first.Status, again.Status)
	}
}

// earlyData plays H16. The header Early-Data is what a server in front adds to a request that it got in early data (RFC
// 8470 §5.1). The case then retries without it, as a client does once the handshake is complete.
func earlyData(t *run) {
	r := t.New()
	early := r.With("Early-Data", "1")
	first := t.Send("in early data", early)
	if !first.OK() && first.Status != http.StatusTooEarly {
		t.Failf("the request in early data (%d) got %d %s", first.No, first.Status, body(first))
		return
	}
	again := t.Send("retry, not in early data", r)
	if first.OK() {
		last := t.Send("retry, in early data", early)
		wantReplay(t, first, again)
		if last.Status != http.StatusTooEarly {
			wantReplay(t, first, last)
		}
		t.WantEffects(1, first, again, last)
		return
	}
	switch {
	case again.OK():
		t.WantEffects(1, again)
	case again.Status == http.StatusTooEarly:
		t.Failf("the retry (%d) got 425 again: it was saved as the answer", again.No)
	default:
		t.Failf("the retry (%d) of a request that was refused with 425 got %d %s", again.No, again.Status, body(again))
	}
}
