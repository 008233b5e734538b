package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// Upstream is the server that requests are forwarded to, and the timeouts for it.
type Upstream struct {
	// URL of the upstream: http, https or h2c (HTTP/2 without TLS). Its path precedes that of each request. HTTP/2 is
	// used for an https upstream that supports it. Required.
	URL *url.URL
	// PreserveHost forwards the client's Host. Default: the host of URL, with the client's in X-Forwarded-Host.
	PreserveHost bool
	// TrustForwarded keeps the X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto and Forwarded fields of a
	// request, and appends to the first. Use it only if no client can reach this proxy except through another proxy.
	// Default: they are replaced by what this proxy sees.
	TrustForwarded bool
	// DialTimeout bounds connecting, including TLS. Default 5 s.
	DialTimeout time.Duration
	// HeaderTimeout bounds the time from the end of the request to the header of the answer. Default: none; requests
	// with a key are bounded by Policy.Timeout.
	HeaderTimeout time.Duration
	// IdleTimeout closes connections to the upstream that were not used for this long. Keep it below the upstream's
	// own timeout: if a request is sent while the upstream closes the connection, its outcome is unknown. Default 4 s
	// (Node.js closes after 5 s).
	IdleTimeout time.Duration
	// TLS configures an https upstream. Default: the system's root certificates.
	TLS *tls.Config
}

const (
	defaultDialTimeout = 5 * time.Second
	defaultIdleTimeout = 4 * time.Second
	maxIdlePerHost     = 1024
	wireBuffer         = 16 << 10
)

// validate returns an error that says what URL should be.
func (u Upstream) validate() error {
	switch {
	case u.URL == nil:
		return errors.New("proxy: no upstream URL")
	case u.URL.Scheme != "http" && u.URL.Scheme != "https" && u.URL.Scheme != "h2c":
		return errors.New("proxy: the upstream URL must begin with http://, https:// or h2c://")
	case u.URL.Host == "":
		return errors.New("proxy: the upstream URL names no host")
	case u.URL.RawQuery != "" || u.URL.Fragment != "" || u.URL.User != nil:
		return errors.New("proxy: the upstream URL may have a scheme, a host and a path, nothing else")
	}
	return nil
}

// target returns the URL that requests are sent to. h2c is HTTP/2 over an http URL.
func (u Upstream) target() *url.URL {
	target := *u.URL
	if target.Scheme == "h2c" {
		target.Scheme = "http"
	}
	return &target
}

// newTransport returns a transport that does not change bodies and uses no other proxy.
func newTransport(u Upstream) *http.Transport {
	dialer := &net.Dialer{Timeout: orElse(u.DialTimeout, defaultDialTimeout), KeepAlive: 30 * time.Second}
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &countingConn{Conn: c}, nil
		},
		TLSClientConfig:       u.TLS,
		TLSHandshakeTimeout:   orElse(u.DialTimeout, defaultDialTimeout),
		ResponseHeaderTimeout: u.HeaderTimeout,
		IdleConnTimeout:       orElse(u.IdleTimeout, defaultIdleTimeout),
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   maxIdlePerHost,
		DisableCompression:    true, // only the client may ask for compression, so that bytes are not changed
		ReadBufferSize:        wireBuffer,
		WriteBufferSize:       wireBuffer,
		Protocols:             new(http.Protocols),
	}
	switch u.URL.Scheme {
	case "h2c":
		t.Protocols.SetUnencryptedHTTP2(true)
	default:
		t.Protocols.SetHTTP1(true)
		t.Protocols.SetHTTP2(true)
	}
	return t
}

// countingConn counts the writes that may have sent bytes.
type countingConn struct {
	net.Conn
	writes atomic.Int64
}

// Write counts before it writes, so that a write in progress is visible.
func (c *countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	n, err := c.Conn.Write(b)
	if n == 0 && err != nil {
		c.writes.Add(-1)
	}
	return n, err
}

// countingConnOf finds the counter below TLS; nil if there is none.
func countingConnOf(c net.Conn) *countingConn {
	if encrypted, ok := c.(*tls.Conn); ok {
		c = encrypted.NetConn()
	}
	counting, _ := c.(*countingConn)
	return counting
}

func orElse[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}
