package probe

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// framedRight reads a replay from a connection that stays open, and then asks for another one on it.
func framedRight(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	t.watchFraming(r, func(first, again rawAnswer) { t.noHops(first, again) })
}

// watchFraming plays a request and its retry on connections that stay open, and looks at how the retry's answer is framed.
func (t *Trial) watchFraming(r Request, look func(first, again rawAnswer)) {
	r.Close = false
	first, ok := t.alone("first, on a connection that stays open", r)
	if !ok {
		return
	}
	s, err := t.open()
	if err != nil {
		t.Brokenf("no connection: %v", err)
		return
	}
	defer s.end()
	again := s.send(t.ctx, r)
	again.Answer = t.mind(t.record("retry, likewise", r, again.Answer))
	if again.Status == 0 {
		t.Failf("the retry (%d) got no answer: %v", again.No, again.Err)
		return
	}
	look(first, again)
	t.wantReplay(first.Answer, again.Answer)
	t.usedOn(s, &again, r)
	for _, what := range again.misframed() {
		t.Failf("the replay (%d): %s", again.No, what)
	}
	t.WantEffects(1, first.Answer, again.Answer)
}

// alone makes a request on a connection of its own and shows the answer as it is on the wire.
func (t *Trial) alone(label string, r Request) (rawAnswer, bool) {
	s, err := t.open()
	if err != nil {
		t.Brokenf("no connection: %v", err)
		return rawAnswer{}, false
	}
	defer s.end()
	a := s.send(t.ctx, r)
	a.Answer = t.record(label, r, a.Answer)
	if a.Err != nil || !a.OK() {
		t.Brokenf("the first request (%d) got %d %s%s", a.No, a.Status, errText(a.Answer), trimmed(a.Body, 200))
		return a, false
	}
	return a, true
}

// usedOn looks at what follows an answer on its connection: nothing, if the server has said that it ends it; otherwise the answer to
// another request, or the end.
func (t *Trial) usedOn(s *session, a *rawAnswer, r Request) {
	switch n := s.in.Buffered(); {
	case a.Err != nil:
		return
	case n > 0:
		a.Rest, _ = s.in.Peek(n)
		a.Rest = slices.Clone(a.Rest)
		return
	case a.closing:
		a.Rest = s.rest()
		return
	}
	r.Close = true
	next := s.send(t.ctx, r)
	next.Answer = t.mind(t.record("once more, on the same connection", r, next.Answer))
	switch {
	case next.Status == 0 && hungUp(next.Err):
	case next.Status == 0:
		t.Failf("what follows the answer (%d) on its connection is no answer: %v", a.No, next.Err)
	default:
		t.wantReplay(a.Answer, next.Answer)
	}
}

// noHops looks for fields in a replay that belonged to the first connection.
func (t *Trial) noHops(first, again rawAnswer) {
	for _, line := range first.values("Connection") {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			if !slices.Contains([]string{"", "close", "keep-alive", "upgrade"}, strings.ToLower(name)) && len(again.values(name)) > 0 {
				t.Failf("the replay (%d) has %s, which Connection has named in the first answer", again.No, name)
			}
		}
	}
	for _, name := range []string{"Proxy-Connection", "HTTP2-Settings", "TE"} {
		if len(again.values(name)) > 0 {
			t.Failf("the replay (%d) has %s, which belongs to a connection", again.No, name)
		}
	}
}

// interimAndTrailers plays a request that is answered with more than one response.
func interimAndTrailers(t *Trial) {
	r := t.Keyed(t.From(*t.Recipe.Variants.Informed, t.Intent()), t.NewKey()).With("TE", "trailers")
	t.watchFraming(r, func(first, again rawAnswer) {
		if len(first.Informed) == 0 && len(first.Trailer) == 0 {
			t.NAf("the first answer has neither an informational response before it nor trailers")
			return
		}
		for name := range first.Trailer {
			if len(again.values(name)) > 0 && len(first.values(name)) == 0 {
				t.Failf("the replay (%d) has the trailer %s among its headers", again.No, name)
			}
		}
		if len(again.Informed) > 0 {
			t.Infof("the replay (%d) has informational responses before it, too: %v", again.No, again.Informed)
		}
	})
}

// upgrade offers HTTP/2 with a request, as clients may that speak it (RFC 7540 §3.2).
func upgrade(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey()).With("Upgrade", "h2c").With("HTTP2-Settings", "AAMAAABkAAQAAP__").With("Connection", "Upgrade, HTTP2-Settings")
	r.Close = false // it has a Connection line of its own
	first := t.Send("offers h2c", r)
	switch {
	case first.Status == http.StatusSwitchingProtocols:
		t.Warnf("the target goes on in h2c (%d): if it is not the layer itself that does, requests pass it by", first.No)
		return
	case !first.OK():
		t.Infof("a request that offers h2c (%d) got %d", first.No, first.Status)
		return
	}
	again := t.Send("retry", r)
	t.wantReplay(first, again)
	t.WantEffects(1, first, again)
}

// twoFramings sends a request whose framing is doubtful, on a connection that could be used on.
func twoFramings(t *Trial) {
	s, err := t.open()
	if err != nil {
		t.Brokenf("no connection: %v", err)
		return
	}
	defer s.end()
	r := t.Keyed(t.Fresh(), t.NewKey())
	doubtful := r.InChunks().With("Content-Length", strconv.Itoa(len(r.Body)))
	doubtful.Close = false
	a := s.send(t.ctx, doubtful)
	a.Answer = t.mind(t.record("Content-Length and chunks", doubtful, a.Answer))
	if !a.OK() || a.closing {
		return // refused, hung up, or said to be the last
	}
	if next := s.send(t.ctx, r); next.Status != 0 {
		t.record("on the same connection", r, next.Answer)
		t.Warnf("after a request with Content-Length and Transfer-Encoding (%d) the connection goes on", a.No)
	}
}

// otherFraming retries with the same bytes in chunks, and the other way round.
func otherFraming(t *Trial) {
	var all []Answer
	for _, chunked := range []bool{false, true} {
		r := t.Keyed(t.Fresh(), t.NewKey())
		plain, inChunks := r, r.InChunks()
		if chunked {
			plain, inChunks = inChunks, plain
		}
		first := t.Send(framing(plain), plain)
		if first.Status == http.StatusLengthRequired {
			t.Infof("the target does not take bodies in chunks: 411")
			continue
		}
		if !first.OK() {
			t.Brokenf("the first request got %d %s%s", first.Status, errText(first), trimmed(first.Body, 200))
			return
		}
		again := t.Send(framing(inChunks)+", the same bytes", inChunks)
		all = append(all, first)
		if again.Status == http.StatusLengthRequired {
			t.Infof("the target does not take bodies in chunks: 411")
			continue
		}
		t.wantReplay(first, again)
	}
	t.WantEffects(len(all), all...)
}

func framing(r Request) string {
	if r.Chunked {
		return "in chunks"
	}
	return "with Content-Length"
}
