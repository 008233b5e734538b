package probe

import (
	"errors"
	"net"
	"time"
)

// halfUnkeyed keeps half of a request without a key back, and waits for the target to give it up.
func halfUnkeyed(t *Trial) {
	limit := t.Recipe.BodyTimeout
	r := t.Fresh()
	s, ok := t.begin(r, max(1, len(r.framed())/2))
	if !ok {
		return
	}
	a := t.record("half of a request without a key", r, s.wait(limit+limit/2+time.Second))
	var late net.Error
	took := a.EndedAt.Sub(a.SentAt).Round(100 * time.Millisecond)
	switch {
	case a.Status == 0 && errors.As(a.Err, &late) && late.Timeout():
		t.Failf("half a request without a key (%d) is still waited for after %s; the API says that it waits for %s", a.No, took, limit)
	case a.Status == 0:
		t.Infof("half a request without a key (%d) was given up after %s, without an answer; 408 would say why", a.No, took)
	case a.OK():
		t.Failf("half a request without a key (%d) was answered with %d", a.No, a.Status)
	case a.ServerError():
		t.Warnf("half a request without a key (%d) got %d after %s: it is not the server that was slow", a.No, a.Status, took)
	}
	t.WantEffects(0, a)
}

// unreadAnswer does not read a large answer, and asks for it again meanwhile.
func unreadAnswer(t *Trial) {
	r := t.Keyed(t.From(*t.Recipe.Variants.Large, t.Intent()), t.NewKey())
	unread := r
	unread.Unread = true
	s, ok := t.begin(unread, 0)
	if !ok {
		return
	}
	t.pause(midway)
	a := t.settle("retry, while nobody reads the answer", r, t.Recipe.Limits.Wait)
	t.record("whose answer nobody reads", r, s.abort())
	switch {
	case a.Status == 0:
		t.Failf("the retry (%d) got no answer: %v", a.No, a.Err)
	case t.busy(a):
		t.Warnf("after %s the key is still in flight (%d: %d), because a client does not read its answer: see that this ends", t.Recipe.Limits.Wait, a.No, a.Status)
	case !a.OK() && !omitted(a) && !t.refusedDuplicate(a):
		t.Failf("the retry (%d) got %d, not the answer: %s", a.No, a.Status, trimmed(a.Body, 200))
	}
	if t.Recipe.Count != nil {
		t.WantEffects(1, a)
	}
}

// wait reads the answer to a request that is not sent any further.
func (s *started) wait(patience time.Duration) Answer {
	defer func() { s.stop(); _ = s.conn.Close() }()
	_ = s.conn.SetDeadline(time.Now().Add(patience))
	a := s.conn.answer(s.method)
	a.SentAt, a.EndedAt, a.Connection = s.sentAt, time.Now(), s.conn.no
	return a
}

// narrow lets the target send little before the answer is read.
func (c *connection) narrow() {
	raw := c.Conn
	if secure, ok := raw.(interface{ NetConn() net.Conn }); ok {
		raw = secure.NetConn()
	}
	if tcp, ok := raw.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10)
	}
}
