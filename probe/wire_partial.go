package probe

import (
	"context"
	"errors"
	"time"
)

// errHungUp is why a request that the probe has given up has no answer.
var errHungUp = errors.New("the client hung up on purpose")

// started is a request of which a part has been sent.
type started struct {
	conn   *connection
	limit  time.Duration // for the rest and the answer
	method string
	rest   []byte // not sent yet
	sentAt time.Time
	stop   func() bool // stops watching the context
}

// start connects and sends the request but for its last bytes. keep is how many of the framed body to hold back; a request without a
// body holds back the end of its head.
func (w *wire) start(ctx context.Context, r Request, keep int) (*started, error) {
	c, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	if r.Unread {
		c.narrow()
	}
	s := &started{conn: c, limit: w.limits.Timeout, method: r.Method, sentAt: time.Now(), stop: context.AfterFunc(ctx, c.abort)}
	whole := append(r.head(w.host), r.framed()...)
	cut := max(0, len(whole)-keep)
	s.rest = whole[cut:]
	if _, err := c.Write(whole[:cut]); err != nil {
		s.abort()
		return nil, err
	}
	return s, nil
}

// finish sends the rest and reads the answer.
func (s *started) finish() Answer {
	defer func() { s.stop(); _ = s.conn.Close() }()
	_ = s.conn.SetDeadline(time.Now().Add(s.limit)) // it may have waited for others
	// A server may answer before it has read everything: what it says counts, not that it stopped listening.
	_, writeErr := s.conn.Write(s.rest)
	a := s.conn.answer(s.method)
	if a.Status == 0 && writeErr != nil {
		a.Err = writeErr
	}
	a.SentAt = s.sentAt
	return a
}

// abort cuts the connection as a process that dies does, whatever has been sent.
func (s *started) abort() Answer {
	s.stop()
	s.conn.abort()
	return s.unanswered()
}

// leave sends the rest and goes away in good order, without waiting for the answer.
func (s *started) leave() Answer {
	_, err := s.conn.Write(s.rest)
	s.stop()
	_ = s.conn.Close()
	a := s.unanswered()
	if err != nil {
		a.Err = err
	}
	return a
}

func (s *started) unanswered() Answer {
	return Answer{Err: errHungUp, SentAt: s.sentAt, EndedAt: time.Now(), Connection: s.conn.no}
}
