package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// errNoHTTP2 says that a target does not speak HTTP/2.
var errNoHTTP2 = errors.New("the target speaks no HTTP/2")

// streams sends requests at once as streams of one HTTP/2 connection: all but the last byte of every body, and then all last bytes.
// It returns errNoHTTP2 if the target cannot do that.
func (w *wire) streams(ctx context.Context, requests []Request) ([]Answer, error) {
	conn, err := w.connectHTTP2(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	for range requests {
		if err := w.meter.spend(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, w.limits.Timeout)
	defer cancel()
	transport := overOne(conn)
	defer transport.CloseIdleConnections()
	gate := newGate(len(requests), w.limits.Timeout/4)
	answers := make([]Answer, len(requests))
	var done sync.WaitGroup
	for i, r := range requests {
		done.Go(func() {
			answers[i] = w.stream(ctx, transport, r, gate)
			answers[i].Connection = conn.no
		})
	}
	done.Wait()
	return answers, nil
}

// connectHTTP2 makes a connection on which the target has said that it speaks HTTP/2, or is known to.
func (w *wire) connectHTTP2(ctx context.Context) (*connection, error) {
	if w.tls == nil {
		if err := w.greet(ctx); err != nil {
			return nil, err
		}
		return w.connect(ctx, nil)
	}
	config := w.tls.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	c, err := w.connect(ctx, config)
	if err != nil {
		return nil, err
	}
	if secure, ok := c.Conn.(*tls.Conn); !ok || secure.ConnectionState().NegotiatedProtocol != "h2" {
		return nil, errors.Join(errNoHTTP2, c.Close())
	}
	return c, nil
}

// preface is what a client says first (RFC 9113 §3.4), with its SETTINGS.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// greet asks a target without TLS whether it knows HTTP/2: one that does answers with SETTINGS.
func (w *wire) greet(ctx context.Context) error {
	c, err := w.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(w.limits.Timeout / 4)); err != nil {
		return err
	}
	if _, err := c.Write([]byte(preface)); err != nil {
		return errNoHTTP2
	}
	var frame [9]byte
	if _, err := io.ReadFull(c, frame[:]); err != nil || frame[3] != 4 {
		return errNoHTTP2
	}
	return nil
}

// overOne is a transport that has one connection and never another.
func overOne(conn *connection) *http.Transport {
	var taken atomic.Bool
	dial := func(context.Context, string, string) (net.Conn, error) {
		if taken.Swap(true) {
			return nil, errors.New("the HTTP/2 connection is no longer usable")
		}
		return conn.Conn, nil
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		DialContext: dial, DialTLSContext: dial, Protocols: protocols, DisableCompression: true, MaxConnsPerHost: 1,
	}
}

// stream sends one request and reads its answer.
func (w *wire) stream(ctx context.Context, transport *http.Transport, r Request, g *gate) (a Answer) {
	sent := &gated{body: r.Body, gate: g}
	defer func() { a.SentAt, a.EndedAt = sent.since(), time.Now() }()
	defer sent.arrive() // an answer may come, or fail to, before the body was asked for
	request, err := http.NewRequestWithContext(ctx, r.Method, w.scheme()+"://"+w.host+r.Path, sent)
	if err != nil {
		a.Err = err
		return a
	}
	request.ContentLength = int64(len(r.Body))
	for _, h := range r.Header {
		request.Header.Add(h.Name, h.Value)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		a.Err = fmt.Errorf("no response: %w", err)
		return a
	}
	defer func() { _ = response.Body.Close() }()
	a.Status, a.Header = response.StatusCode, response.Header
	a.Body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		a.Err = fmt.Errorf("the body breaks off after %d bytes: %w", len(a.Body), err)
	}
	a.Trailer = response.Trailer
	return a
}

func (w *wire) scheme() string {
	if w.tls != nil {
		return "https"
	}
	return "http"
}
