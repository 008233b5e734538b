package wire

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

// ErrNoHTTP2 says that a target does not speak HTTP/2.
var ErrNoHTTP2 = errors.New("the target does not support HTTP/2")

// Streams sends requests at once as streams of one HTTP/2 connection: all but the last byte of every body, and then all
// last bytes. The answers are in the order of the requests. It returns ErrNoHTTP2 if the target cannot do that.
func (c *Client) Streams(ctx context.Context, requests []Request) ([]Answer, error) {
	conn, err := c.connectHTTP2(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	for range requests {
		if err := c.meter.Spend(ctx); err != nil {
			return nil, err
		}
	}
	no := c.meter.Connected()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	transport := overOne(conn)
	defer transport.CloseIdleConnections()
	gate := newGate(len(requests), c.timeout/4)
	answers := make([]Answer, len(requests))
	var done sync.WaitGroup
	for i, r := range requests {
		done.Go(func() {
			answers[i] = c.stream(ctx, transport, r, gate)
			answers[i].Connection = no
		})
	}
	done.Wait()
	return answers, nil
}

// connectHTTP2 returns a connection to a target that supports HTTP/2: over TLS by ALPN, in the clear if the target
// answers the client's preface.
func (c *Client) connectHTTP2(ctx context.Context) (net.Conn, error) {
	if c.tls == nil {
		if err := c.greet(ctx); err != nil {
			return nil, err
		}
		return c.connect(ctx, nil)
	}
	config := c.tls.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	conn, err := c.connect(ctx, config)
	if err != nil {
		return nil, err
	}
	if secure, ok := conn.(*tls.Conn); !ok || secure.ConnectionState().NegotiatedProtocol != "h2" {
		return nil, errors.Join(ErrNoHTTP2, conn.Close())
	}
	return conn, nil
}

// preface is what a client says first (RFC 9113 §3.4), with its SETTINGS.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// greet asks a target without TLS whether it knows HTTP/2: one that does answers with SETTINGS.
func (c *Client) greet(ctx context.Context) error {
	if err := c.meter.Spend(ctx); err != nil {
		return err
	}
	conn, err := c.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(c.timeout / 4)); err != nil {
		return err
	}
	var frame [9]byte
	if _, err := conn.Write([]byte(preface)); err != nil {
		return ErrNoHTTP2
	}
	if _, err := io.ReadFull(conn, frame[:]); err != nil || frame[3] != 4 {
		return ErrNoHTTP2
	}
	return nil
}

// overOne returns a transport that uses one connection and never opens another. All streams of a burst must share it.
func overOne(conn net.Conn) *http.Transport {
	var taken atomic.Bool
	dial := func(context.Context, string, string) (net.Conn, error) {
		if taken.Swap(true) {
			return nil, errors.New("the HTTP/2 connection is no longer usable")
		}
		return conn, nil
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		DialContext: dial, DialTLSContext: dial, Protocols: protocols, DisableCompression: true, MaxConnsPerHost: 1,
	}
}

// stream sends one request and reads its answer.
func (c *Client) stream(ctx context.Context, transport *http.Transport, r Request, g *gate) (a Answer) {
	sent := &gated{body: r.Body, gate: g}
	defer func() { a.SentAt, a.EndedAt = sent.since(), time.Now() }()
	defer sent.arrive() // an answer may come, or fail to, before the body was asked for
	request, err := http.NewRequestWithContext(ctx, r.Method, c.scheme()+"://"+c.host+r.Path, sent)
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
	a.Header = response.Header
	a.take(response)
	return a
}

// scheme returns https for a target with TLS, and http otherwise.
func (c *Client) scheme() string {
	if c.tls != nil {
		return "https"
	}
	return "http"
}
