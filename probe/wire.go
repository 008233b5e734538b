package probe

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// wire makes connections to one target. Each request has one of its own, so that nothing in between sends it twice.
type wire struct {
	address string // to dial
	host    string // for the Host header
	tls     *tls.Config
	limits  Limits
	meter   *meter
}

func newWire(target *url.URL, limits Limits) *wire {
	w := &wire{host: target.Host, limits: limits, meter: newMeter(limits)}
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	w.address = net.JoinHostPort(target.Hostname(), port)
	if target.Scheme == "https" {
		w.tls = &tls.Config{ServerName: target.Hostname(), MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	return w
}

// connection is one to the target, which the case writes to and reads from piece by piece.
type connection struct {
	net.Conn
	in *bufio.Reader
	no int // counts the connections of the run
}

func (w *wire) dial(ctx context.Context) (*connection, error) {
	if err := w.meter.spend(ctx); err != nil {
		return nil, err
	}
	return w.connect(ctx, w.tls)
}

// connect makes a connection, over TLS if there is a config. It costs nothing of the budget of requests.
func (w *wire) connect(ctx context.Context, config *tls.Config) (*connection, error) {
	d := net.Dialer{Timeout: w.limits.Timeout}
	conn, err := d.DialContext(ctx, "tcp", w.address)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(w.limits.Timeout)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if config != nil {
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		conn = secure
	}
	return &connection{conn, bufio.NewReader(conn), w.meter.connected()}, nil
}

// abort ends the connection as a process that dies does: what is on its way is thrown away.
func (c *connection) abort() {
	raw := c.Conn
	if secure, ok := raw.(*tls.Conn); ok {
		raw = secure.NetConn()
	}
	if tcp, ok := raw.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = raw.Close()
}

// maxAnswer bounds what is read of a body.
const maxAnswer = 64 << 20

// answer reads a response to a request of that method.
func (c *connection) answer(method string) (a Answer) {
	defer func() { a.EndedAt, a.Connection = time.Now(), c.no }()
	for {
		_, err := a.read(c.in, method)
		switch {
		case err != nil:
			return Answer{Err: fmt.Errorf("no response: %w", err), Informed: a.Informed}
		case a.Status >= 200 || a.Status == http.StatusSwitchingProtocols:
			return a
		}
		a.Informed = append(a.Informed, a.Status)
	}
}

// read reads one response, and says whether the connection ends behind it. A body that breaks off is no error: a.Err says so.
func (a *Answer) read(in *bufio.Reader, method string) (closing bool, err error) {
	r, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		return false, err
	}
	defer func() { _ = r.Body.Close() }()
	a.Status, a.Header = r.StatusCode, r.Header
	for _, coding := range r.TransferEncoding {
		a.Header.Add("Transfer-Encoding", coding)
	}
	if a.Body, err = io.ReadAll(io.LimitReader(r.Body, maxAnswer)); err != nil {
		a.Err = fmt.Errorf("the body breaks off after %d bytes: %w", len(a.Body), err)
	}
	a.Trailer = r.Trailer
	return r.Close, nil
}

// exchange sends a request and reads the answer.
func (w *wire) exchange(ctx context.Context, r Request) Answer {
	sent := time.Now()
	c, err := w.dial(ctx)
	if err != nil {
		return Answer{Err: err, SentAt: sent, EndedAt: time.Now()}
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, c.abort)
	defer stop()
	// A server may answer before it has read everything: what it says counts, not that it stopped listening.
	_, writeErr := c.Write(append(r.head(w.host), r.framed()...))
	a := c.answer(r.Method)
	if a.Status == 0 && writeErr != nil {
		a.Err = writeErr
	}
	a.SentAt = sent
	return a
}

// meter keeps a run within its requests and its rate.
type meter struct {
	limits Limits

	mu    sync.Mutex
	spent int
	conns int
	saved float64 // requests that may be made at once
	at    time.Time
}

// maxSaved is how many requests may be made at once after a pause.
const maxSaved = 300

func newMeter(l Limits) *meter { return &meter{limits: l, saved: maxSaved, at: time.Now()} }

var errRequests = errors.New("the run has made as many requests as it may: raise limits.requests in the recipe")

func (m *meter) spend(ctx context.Context) error {
	wait, err := m.take()
	if err != nil || wait <= 0 {
		return err
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take takes a request from the budget and says how long to wait before it is made.
func (m *meter) take() (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spent++; m.spent > m.limits.Requests {
		return 0, errRequests
	}
	now := time.Now()
	m.saved = min(maxSaved, m.saved+now.Sub(m.at).Seconds()*m.limits.Rate) - 1
	m.at = now
	if m.saved >= 0 {
		return 0, nil
	}
	return time.Duration(-m.saved / m.limits.Rate * float64(time.Second)), nil
}

// trimmed is what of a body is shown.
func trimmed(body []byte, limit int) string {
	if len(body) <= limit {
		return string(bytes.ToValidUTF8(body, []byte("·")))
	}
	return string(bytes.ToValidUTF8(body[:limit], []byte("·"))) + fmt.Sprintf("… (%d bytes)", len(body))
}

// made is how many requests have been made.
func (m *meter) made() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return min(m.spent, m.limits.Requests)
}

// empty reports whether a request was wanted that may not be made.
func (m *meter) empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spent > m.limits.Requests
}

// connected numbers a new connection.
func (m *meter) connected() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns++
	return m.conns
}
