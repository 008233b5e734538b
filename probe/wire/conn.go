package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Conn is one connection to the target.
type Conn struct {
	net.Conn
	in     *bufio.Reader
	client *Client
	no     int         // among the connections of the run
	stop   func() bool // stops watching the context

	method string // of the request that Start has begun
	rest   []byte // of it that has not been sent yet
	sentAt time.Time
}

// errAbandoned is why a request that the probe has given up has no answer.
var errAbandoned = errors.New("the probe closed the connection on purpose")

// Finish sends the rest of the request that Start has begun, reads the answer and ends the connection.
func (c *Conn) Finish() Answer {
	defer c.End()
	_ = c.SetDeadline(time.Now().Add(c.client.timeout)) // it may have waited for others
	// A server may answer before it has read everything: its answer counts, not that it stopped reading.
	_, writeErr := c.Write(c.rest)
	return c.answered(c.read(c.method), c.sentAt, writeErr)
}

// Wait reads the answer to a request of which no more is sent, for as long as patience, and ends the connection.
func (c *Conn) Wait(patience time.Duration) Answer {
	defer c.End()
	_ = c.SetDeadline(time.Now().Add(patience))
	return c.answered(c.read(c.method), c.sentAt, nil)
}

// Leave sends the rest and closes the connection in good order, without waiting for the answer.
func (c *Conn) Leave() Answer {
	_, err := c.Write(c.rest)
	c.End()
	if err == nil {
		err = errAbandoned
	}
	return c.answered(Answer{}, c.sentAt, err)
}

// Abort resets the connection whatever has been sent, as the system does when a process dies.
func (c *Conn) Abort() Answer {
	c.stop()
	c.reset()
	return c.answered(Answer{}, c.sentAt, errAbandoned)
}

// End closes the connection.
func (c *Conn) End() {
	c.stop()
	_ = c.Close()
}

// Send makes a request and reads the answer. The connection stays open, if the server keeps it open.
func (c *Conn) Send(ctx context.Context, r Request) Answer {
	sent := time.Now()
	if err := c.sendHead(ctx, r); err != nil {
		return c.answered(Answer{}, sent, err)
	}
	_, writeErr := c.Write(r.Framed())
	return c.answered(c.read(r.Method), sent, writeErr)
}

// An Expected answer is that to a request with Expect: 100-continue.
type Expected struct {
	Answer
	BodySent bool // the server has asked for the body, or has not answered the head
	Silent   bool // the server has not answered the head
}

// SendExpecting sends the head of a request with Expect: 100-continue, and the body when the server asks for it or
// when it has not answered within patience. The connection stays open.
func (c *Conn) SendExpecting(ctx context.Context, r Request, patience time.Duration) (e Expected) {
	sent := time.Now()
	if err := c.sendHead(ctx, r); err != nil {
		e.Answer = c.answered(Answer{}, sent, err)
		return e
	}
	var writeErr error
	if e.Silent = c.silent(patience); e.Silent {
		e.BodySent = true
		_, writeErr = c.Write(r.Framed())
	}
	a := c.readAnswer(r.Method, func(status int) {
		if status == http.StatusContinue && !e.BodySent {
			e.BodySent = true
			_, writeErr = c.Write(r.Framed())
		}
	})
	e.Answer = c.answered(a, sent, writeErr)
	return e
}

// sendHead sends a request up to its body.
func (c *Conn) sendHead(ctx context.Context, r Request) error {
	if err := c.client.meter.Spend(ctx); err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(c.client.timeout)); err != nil {
		return err
	}
	_, err := c.Write(r.Head(c.client.host))
	return err
}

// answered completes an answer. If none came, the error of the write explains it best.
func (c *Conn) answered(a Answer, sent time.Time, writeErr error) Answer {
	if a.Status == 0 && writeErr != nil {
		a.Err = writeErr
	}
	a.SentAt, a.EndedAt, a.Connection = sent, time.Now(), c.no
	return a
}

// silent waits for a response without reading it, and reports whether none came in that time.
func (c *Conn) silent(patience time.Duration) bool {
	if c.SetReadDeadline(time.Now().Add(patience)) != nil {
		return false
	}
	defer func() { _ = c.SetReadDeadline(time.Now().Add(c.client.timeout)) }()
	_, err := c.in.Peek(1)
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// Behind returns what the server has sent after the answer: all of it until it ends the connection if it has said
// that it does so, otherwise what is there already.
func (c *Conn) Behind(a Answer) []byte {
	n := int64(c.in.Buffered())
	if n == 0 && a.Closing {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		n = 4096
	}
	b, _ := io.ReadAll(io.LimitReader(c.in, n))
	return b
}

// reset ends the connection as a process that dies does: what is on its way is thrown away.
func (c *Conn) reset() {
	if tcp := c.tcp(); tcp != nil {
		_ = tcp.SetLinger(0)
		_ = tcp.Close() // of TLS too: without its farewell
		return
	}
	_ = c.Close()
}

// narrow lets the target send little before the answer is read.
func (c *Conn) narrow() {
	if tcp := c.tcp(); tcp != nil {
		_ = tcp.SetReadBuffer(4 << 10)
	}
}

// tcp returns the TCP connection, also below TLS.
func (c *Conn) tcp() *net.TCPConn {
	raw := c.Conn
	if secure, ok := raw.(*tls.Conn); ok {
		raw = secure.NetConn()
	}
	tcp, _ := raw.(*net.TCPConn)
	return tcp
}

// HungUp reports whether an error says that the server ended the connection instead of answering.
func HungUp(err error) bool {
	var broken *net.OpError
	return errors.Is(err, io.EOF) || errors.As(err, &broken) && !broken.Timeout()
}
