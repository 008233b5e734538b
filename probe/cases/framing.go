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

// framedRight reads a replay from a connection that stays open, and looks for headers of the first connection in it.
func framedRight(t *run) {
	first, again := sendOpen(t, t.New())
	for name := range strings.SplitSeq(strings.Join(first.Values("Connection"), ","), ",") {
		name = strings.TrimSpace(name)
		if slices.Contains([]string{"", "close", "keep-alive", "upgrade"}, strings.ToLower(name)) {
			continue
		}
		if len(again.Values(name)) > 0 {
			t.Failf("the replay (%d) has %s, which Connection has named in the first answer", again.No, name)
		}
	}
	for _, name := range connectionHeaders {
		if len(again.Values(name)) > 0 {
			t.Failf("the replay (%d) has %s, which belongs to a connection", again.No, name)
		}
	}
	wantFramed(t, first, again)
}

// interimAndTrailers sends a request that is answered with more than one response, or with trailers.
func interimAndTrailers(t *run) {
	first, again := sendOpen(t, t.NewFrom(*t.recipe.Variants.Informed).With("TE", "trailers"))
	for name := range first.Trailer {
		if len(again.Values(name)) > 0 && len(first.Values(name)) == 0 {
			t.Failf("the replay (%d) has the trailer %s among its headers", again.No, name)
		}
	}
	if len(again.Informed) > 0 {
		t.Infof("the replay (%d) has informational responses before it, too: %v", again.No, again.Informed)
	}
	wantFramed(t, first, again)
	if len(first.Informed) == 0 && len(first.Trailer) == 0 {
		t.Skipf("the first answer has neither an informational response before it nor trailers")
	}
}

// sendOpen sends a request and its retry on connections that stay open, and what the server sends after the retry's
// answer is in its Rest. It notes a FAIL if there is no retry's answer, or if what follows it on the connection is
// none.
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

// wantUsable checks what follows an answer on its connection: nothing, if the server has said that it ends it;
// otherwise the answer to another request, or the end.
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
		t.Failf("what follows the answer (%d) on its connection is no answer: %v", a.No, next.Err)
	default:
		wantReplay(t, *a, next)
	}
}

// upgrade offers HTTP/2 with a request, as clients may that support it (RFC 7540 §3.2).
func upgrade(t *run) {
	r := t.New().With("Upgrade", "h2c").With("HTTP2-Settings", "AAMAAABkAAQAAP__").
		With("Connection", "Upgrade, HTTP2-Settings")
	r.Close = false // it has a Connection line of its own
	first := t.Send("offers h2c", r)
	switch {
	case first.Status == http.StatusSwitchingProtocols:
		t.Warnf("the target continues in h2c (%d): unless the layer itself does that, requests bypass it", first.No)
		return
	case !first.OK():
		t.Infof("a request that offers h2c (%d) got %d", first.No, first.Status)
		return
	}
	again := t.Send("retry", r)
	wantReplay(t, first, again)
	t.WantEffects(1, first, again)
}

// twoFramings sends a request whose framing is doubtful, on a connection that could stay in use.
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

// otherFraming retries with the same bytes in chunks, and the other way round.
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
			t.Infof("the target does not take bodies in chunks: 411")
			continue
		}
		if !first.OK() {
			t.Brokenf("the first request got %d %s", first.Status, body(first))
		}
		all = append(all, first)
		again := t.Send(framing(two)+", the same bytes", two)
		if again.Status == http.StatusLengthRequired {
			t.Infof("the target does not take bodies in chunks: 411")
			continue
		}
		wantReplay(t, first, again)
	}
	t.WantEffects(len(all), all...)
}

func framing(r wire.Request) string {
	if r.Chunked {
		return "in chunks"
	}
	return "with Content-Length"
}
