package probe

import (
	"net/http"
	"time"
)

// patience is how long a client waits for 100 Continue before it sends its body all the same.
const patience = 3 * time.Second

// expectReplay retries with Expect: 100-continue: the body waits until the server asks for it.
func expectReplay(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	s, err := t.open()
	if err != nil {
		t.Brokenf("no connection: %v", err)
		return
	}
	defer s.end()
	waiting := r.With("Expect", "100-continue")
	waiting.Close = false
	a, asked := t.expect(s, "retry that waits for 100", waiting)
	if a.Status == 0 {
		t.Failf("the retry (%d) got no answer: %v", a.No, a.Err)
		return
	}
	if a.Status == http.StatusExpectationFailed {
		t.Infof("the target does not wait for bodies: 417")
		return
	}
	t.wantReplay(first, a.Answer)
	if !asked && !a.closing {
		// The server goes on listening, so the body is still awaited: it must not be taken for a request.
		if _, err := s.Write(waiting.framed()); err != nil {
			return
		}
	}
	t.usedOn(s, &a, r)
	for _, what := range a.misframed() {
		t.Failf("the answer (%d): %s", a.No, what)
	}
	t.WantEffects(1, first, a.Answer)
}

// expect sends a head, and the body if the server asks for it or says nothing. It returns the final answer, and whether the body
// was sent.
func (t *Trial) expect(s *session, label string, r Request) (a rawAnswer, sent bool) {
	began := time.Now()
	if err := s.writeHead(t.ctx, r); err != nil {
		a.Err = err
		return a, false
	}
	defer func() {
		a.SentAt, a.EndedAt = began, time.Now()
		a.Answer = t.mind(t.record(label, r, a.Answer))
	}()
	if s.silent(patience) {
		t.Warnf("the target says neither 100 nor anything else within %v while it has the head only", patience)
		_, a.Err = s.Write(r.framed())
		return s.read(r.Method), true
	}
	var informed []int
	for {
		h, err := s.readHead()
		if err != nil {
			a.Err = err
			return a, sent
		}
		if !h.interim() {
			a = s.readBody(h, r.Method)
			a.Informed = informed
			return a, sent
		}
		informed = append(informed, h.status)
		if h.status == http.StatusContinue && !sent {
			if sent = true; !t.sendBody(s, r) {
				return s.read(r.Method), sent
			}
		}
	}
}

// sendBody sends a body; a server may have answered before it has read everything, so what it says counts.
func (t *Trial) sendBody(s *session, r Request) bool {
	_, err := s.Write(r.framed())
	return err == nil
}

// expectMalformed sends a head with a malformed key: that is enough to refuse it.
func expectMalformed(t *Trial) {
	r := t.RawKeyed(t.Fresh(), `"`+t.NewKey()).With("Expect", "100-continue")
	s, err := t.open()
	if err != nil {
		t.Brokenf("no connection: %v", err)
		return
	}
	defer s.end()
	a, asked := t.expect(s, "a malformed key that waits for 100", r)
	switch {
	case a.Status == 0:
		t.Failf("the request (%d) got no answer: %v", a.No, a.Err)
	case a.OK():
		t.Failf("the request (%d) was carried out though its key is malformed: %d", a.No, a.Status)
	case !oneOf(a.Status, t.Rules.Malformed) && a.Status != http.StatusExpectationFailed:
		t.Failf("the request (%d) got %d; profile %s says %s", a.No, a.Status, t.Rules.Name, statuses(t.Rules.Malformed))
	case asked:
		t.Warnf("the body was asked for before the request (%d) was refused with %d", a.No, a.Status)
	}
	t.WantEffects(0, a.Answer)
}
