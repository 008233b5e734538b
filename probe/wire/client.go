package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/url"
	"time"
)

// Meter bounds how many requests are made, and numbers connections.
type Meter interface {
	// Spend waits until a request may be made. It returns an error if there are too many, or if ctx ends.
	Spend(ctx context.Context) error
	// Connected returns the number of a new connection.
	Connected() int
}

// Client makes requests to one target.
type Client struct {
	address string // to dial
	host    string // for the Host header
	tls     *tls.Config
	timeout time.Duration // of one request
	meter   Meter
}

// New returns a client for the scheme, host and port of the target. It opens no connection yet.
func New(target *url.URL, timeout time.Duration, meter Meter) *Client {
	c := &Client{host: target.Host, timeout: timeout, meter: meter}
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	c.address = net.JoinHostPort(target.Hostname(), port)
	if target.Scheme == "https" {
		c.tls = &tls.Config{ServerName: target.Hostname(), MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	return c
}

// Host returns the target's host as requests name it.
func (c *Client) Host() string { return c.host }

// Do sends a request once, on a connection of its own, and reads the answer. Answer.Err says why there is none.
func (c *Client) Do(ctx context.Context, r Request) Answer {
	sent := time.Now()
	conn, err := c.Start(ctx, r, math.MaxInt)
	if err != nil {
		return Answer{Err: err, SentAt: sent, EndedAt: time.Now()}
	}
	a := conn.Finish()
	a.SentAt = sent
	return a
}

// Start connects and sends the request but for its last bytes. keep is how many of them to hold back; where the body is
// shorter, the end of the head is held back too. Conn.Finish sends the rest.
func (c *Client) Start(ctx context.Context, r Request, keep int) (*Conn, error) {
	if err := c.meter.Spend(ctx); err != nil {
		return nil, err
	}
	conn, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	if r.Unread {
		conn.narrow()
	}
	conn.method, conn.sentAt = r.Method, time.Now()
	whole := append(r.Head(c.host), r.Framed()...)
	cut := max(0, len(whole)-keep)
	conn.rest = whole[cut:]
	if _, err := conn.Write(whole[:cut]); err != nil {
		conn.Abort()
		return nil, err
	}
	return conn, nil
}

// Open connects. The connection ends with ctx, or by one of Conn's methods that end it.
func (c *Client) Open(ctx context.Context) (*Conn, error) {
	raw, err := c.connect(ctx, c.tls)
	if err != nil {
		return nil, err
	}
	conn := &Conn{Conn: raw, in: bufio.NewReader(raw), client: c, no: c.meter.Connected()}
	conn.stop = context.AfterFunc(ctx, conn.reset)
	return conn, nil
}

// connect makes a connection, over TLS if there is a config.
func (c *Client) connect(ctx context.Context, config *tls.Config) (net.Conn, error) {
	d := net.Dialer{Timeout: c.timeout}
	conn, err := d.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if config == nil {
		return conn, nil
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}
