package cases

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// connectionHeaders belong to one connection.
var connectionHeaders = []string{"Proxy-Connection", "HTTP2-Settings", "TE"}

// framedRight plays H02. It reads a replay from a connection that stays open: only there does wrong framing show, as
// bytes that follow the answer or as an answer to the next request that cannot be parsed. It also looks for headers
// that were valid for the first connection only (RFC 9110 §7.6.1).
func framedRight(t *run) {
	first, again := sendOpen(t, t.New())
	for name := range strings.SplitSeq(strings.Join(first.Values("Connection"), ","), ",") {
		name = strings.TrimSpace(name)
		if slices.Contains([]string{"", "close", "keep-alive", "upgrade"}, strings.ToLower(name)) {
			continue
		}
		if len(again.Values(name)) > 0 {
			t.Failf("the replay (%d) has %s, which the Connection header of the first answer names", again.No, name)
		}
	}
	for _, name := range connectionHeaders {
		if len(again.Values(name)) > 0 {
			t.Failf("the replay (%d) has %s, which is valid for one connection only", again.No, name)
		}
	}
	wantFramed(t, first, again)
}

// interimAndTrailers plays H12.
func interimAndTrailers(t *run) {
	first, again := sendOpen(t, t.NewFrom(*t.recipe.Variants.Informed).With("TE", "trailers"))
	for name := range first.Trailer {
		if len(again.Values(name)) > 0 && len(first.Values(name)) == 0 {
			t.Failf("the replay (%d) has the trailer %s among its headers", again.No, name)
		}
	}
	if len(again.Informed) > 0 {
		t.Infof("the replay (%d) comes after interim responses, too: %v", again.No, again.Informed)
	}
	wantFramed(t, first, again)
	if len(first.Informed) == 0 && len(first.Trailer) == 0 {
		t.Skipf("the first answer has neither an interim response before it nor trailers")
	}
}

// sendOpen sends a request and its retry on connections that stay open. What the server sends after the retry's answer
// is in its Rest. It ends the case if the retry has no answer.
func sendOpen(t *run, r wire.Request) (first, again wire.Answer) {
	r.Close = false
	conn := t.open()
	first = t.record("first, on a connection that stays open", r, conn.Send(t.Context(), r))
	conn.End()
	if first.Err != nil || !first.OK() {
		t.Brokenf("the first request (%d) got %d %s", first.No, first.Status, body(first))
	}
	conn = t.open()
	defer conn.End()
	again = t.noteLimit(t.record("retry, likewise", r, conn.Send(t.Context(), r)))
	if again.Status == 0 {
		t.Failf("the retry (%d) got no answer: %v", again.No, again.Err)
		t.Stop()
	}
	wantUsable(t, conn, &again, r)
	return first, again
}

// wantFramed notes a FAIL unless the retry's answer is a replay, and framed as one.
func wantFramed(t *run, first, again wire.Answer) {
	wantReplay(t, first, again)
	for _, what := range again.Misframed() {
		t.Failf("the replay (%d): %s", again.No, what)
	}
	t.WantEffects(1, first, again)
}

// wantUsable checks what follows an answer on its connection. If the server has announced the end of the connection,
// nothing may follow. Otherwise it must answer another request or close the connection.
func wantUsable(t *run, conn *wire.Conn, a *wire.Answer, r wire.Request) {
	if a.Err != nil {
		return
	}
	if a.Rest = conn.Behind(*a); len(a.Rest) > 0 || a.Closing {
		return
	}
	r.Close = true
	next := t.noteLimit(t.record("once more, on the same connection", r, conn.Send(t.Context(), r)))
	switch {
	case next.Status == 0 && wire.HungUp(next.Err):
	case next.Status == 0:
		t.Failf("what follows the answer (%d) on its connection is not an HTTP response: %v", a.No, next.Err)
	default:
		wantReplay(t, *a, next)
	}
}

// upgrade plays H19. It offers HTTP/2 with a request, as a client may (RFC 7540 §3.2; RFC 9113 §3.1 has removed this).
// A proxy that forwards the offer ends up relaying a protocol whose requests it does not see.
func upgrade(t *run) {
	r := t.New().With("Upgrade", "h2c").With("HTTP2-Settings", "AAMAAABkAAQAAP__").
		With("Connection", "Upgrade, HTTP2-Settings")
	r.Close = false // it has a Connection line of its own
	first := t.Send("offers h2c", r)
	switch {
	case first.Status == http.StatusSwitchingProtocols:
		t.Warnf("the target switches to h2c (%d): unless the idempotency layer itself does so, requests bypass it", first.No)
		return
	case !first.OK():
		t.Infof("a request that offers h2c (%d) got %d", first.No, first.Status)
		return
	}
	again := t.Send("retry", r)
	wantReplay(t, first, again)
	t.WantEffects(1, first, again)
}

// twoFramings plays H20. RFC 9112 §6.3 lets a server accept such a request if it closes the connection afterwards,
// since the two ends may disagree on where the request ends.
func twoFramings(t *run) {
	conn := t.open()
	defer conn.End()
	r := t.New()
	doubtful := r.InChunks().With("Content-Length", strconv.Itoa(len(r.Body)))
	doubtful.Close = false
	a := t.noteLimit(t.record("Content-Length and chunks", doubtful, conn.Send(t.Context(), doubtful)))
	if !a.OK() || a.Closing {
		return // refused, hung up, or said to be the last
	}
	if next := conn.Send(t.Context(), r); next.Status != 0 {
		t.record("on the same connection", r, next)
		t.Warnf("after a request with Content-Length and Transfer-Encoding (%d) the connection stays open", a.No)
	}
}

// otherFraming plays H08, in both directions. A server may refuse chunked bodies with 411, which is recorded.
func otherFraming(t *run) {
	var all []wire.Answer
	for _, chunked := range []bool{false, true} {
		one := t.New()
		two := one.InChunks()
		if chunked {
			one, two = two, one
		}
		first := t.Send(framing(one), one)
		if first.Status == http.StatusLengthRequired {
			t.Infof("the target does not accept chunked bodies: 411")
			continue
		}
		if !first.OK() {
			t.Brokenf("the first request got %d %s", first.Status, body(first))
		}
		all = append(all, first)
		again := t.Send(framing(two)+", the same bytes", two)
		if again.Status == http.StatusLengthRequired {
			t.Infof("the target does not accept chunked bodies: 411")
			continue
		}
		wantReplay(t, first, again)
	}
	t.WantEffects(len(all), all...)
}

// framing names how the body of a request is framed, for labels.
func framing(r wire.Request) string {
	if r.Chunked {
		return "in chunks"
	}
	return "with Content-Length"
}
