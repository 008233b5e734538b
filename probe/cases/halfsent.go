package cases

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// halfPatience is how long a half-sent request may hold up a whole one.
const halfPatience = 2 * time.Second

// halfSent plays C09. It holds back half of a request and sends the complete request with the same key on another
// connection, as a phone does that changes its network.
func halfSent(t *run) {
	r := t.New()
	half := t.start(r, max(1, len(r.Framed())/2))
	t.Pause(midway) // the target is to have read it
	answered := make(chan wire.Answer, 1)
	go func() { answered <- retryWhile(t, "the complete request", r, halfPatience, taken) }()
	var a wire.Answer
	inTime := true
	select {
	case a = <-answered:
	case <-time.After(2 * halfPatience):
		inTime = false
	}
	if inTime && a.OK() { // the half-sent request did not hold up the whole one
		rest := t.record("the half-sent request, completed", r, half.Finish())
		if rest.OK() || rest.ServerError() {
			wantReplay(t, a, rest)
		}
		t.WantEffects(1, a, rest)
		return
	}
	t.record("half-sent request, given up", r, half.Abort())
	if !inTime {
		a = <-answered
	}
	judgeHeldUp(t, r, a)
}

// judgeHeldUp judges the answer to a complete request that a half-sent one with its key has held up. The half-sent
// request has been given up by now, so the key must be free: at once, or after some retries.
func judgeHeldUp(t *run, r wire.Request, a wire.Answer) {
	switch {
	case a.OK():
		t.Warnf("a complete request (%d) waited until the half-sent one was given up", a.No)
		t.WantEffects(1, a)
	case a.Status == 0:
		t.Failf("a complete request (%d) got no answer, even after the half-sent one was given up: %v", a.No, a.Err)
		t.WantCount(1)
	case !taken(t, a):
		t.Brokenf("the target answered the complete request (%d) with %d: %s", a.No, a.Status, body(a))
	default:
		late := retryWhile(t, "retry", r, t.recipe.Limits.Wait, taken)
		if !late.OK() {
			t.Failf("a half-sent request still holds the key (%d: %d) %s after it was given up", late.No, late.Status,
				t.recipe.Limits.Wait)
			return
		}
		t.Warnf("a complete request (%d) was refused as in flight: the key is blocked until the half-sent "+
			"request is given up",
			a.No)
		t.WantEffects(1, late)
	}
}

// halfUnkeyed plays C11. It holds back half of a request without a key, and waits half as long again as the recipe's
// body_timeout for the target to give up.
func halfUnkeyed(t *run) {
	limit := t.recipe.BodyTimeout
	r := t.Fresh()
	half := t.start(r, max(1, len(r.Framed())/2))
	a := t.record("half-sent request without a key", r, half.Wait(limit+limit/2+time.Second))
	var late net.Error
	took := a.EndedAt.Sub(a.SentAt).Round(100 * time.Millisecond)
	switch {
	case a.Status == 0 && errors.As(a.Err, &late) && late.Timeout():
		t.Failf("the target still waits for a half-sent request without a key (%d) after %s; the recipe's "+
			"body_timeout is %s",
			a.No, took,
			limit)
	case a.Status == 0:
		t.Infof("a half-sent request without a key (%d) was given up after %s without an answer; 408 would say "+
			"why", a.No, took)
	case a.OK():
		t.Failf("a half-sent request without a key (%d) was answered with %d", a.No, a.Status)
	case a.ServerError():
		t.Warnf("a half-sent request without a key (%d) got %d after %s, although the client was slow, not the "+
			"server", a.No, a.Status, took)
	}
	t.WantEffects(0, a)
}

// unreadAnswer plays C12. It does not read a large answer, and retries the request meanwhile.
func unreadAnswer(t *run) {
	r := t.NewFrom(*t.recipe.Variants.Large)
	unread := r
	unread.Unread = true
	conn := t.start(unread, 0)
	t.Pause(midway)
	a := settle(t, "retry, while the answer is not read", r, t.recipe.Limits.Wait)
	t.record("the client does not read the answer", r, conn.Abort())
	switch {
	case a.Status == 0:
		t.Failf("the retry (%d) got no answer: %v", a.No, a.Err)
	case busy(t, a):
		t.Warnf("after %s the key is still in flight (%d: %d), because a client does not read its answer: "+
			"check that it is freed in the end",
			t.recipe.Limits.Wait, a.No, a.Status)
	case !a.OK() && !omitted(a) && !refusedDuplicate(t, a):
		t.Failf("the retry (%d) got %d, not the answer: %s", a.No, a.Status, body(a))
	}
	t.WantCount(1, a)
}

// omitted reports whether an answer says that its body was left out: the parameter body=?0 of Idempotency-Status, 303
// with the place where it is, or an error whose text says so.
func omitted(a wire.Answer) bool {
	switch {
	case strings.Contains(joined(a.Header.Values("Idempotency-Status")), "body=?0"):
		return true
	case a.Status == http.StatusSeeOther:
		return a.Header.Get("Location") != ""
	case a.OK():
		return false
	}
	text := strings.ToLower(string(a.Plain()))
	return slices.ContainsFunc([]string{"omitted", "too large", "not kept"},
		func(s string) bool { return strings.Contains(text, s) })
}
