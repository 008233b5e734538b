package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// charge is one payment that a customer intends, however often the request is sent.
type charge struct {
	path     string // "/charges", "/v2/charges" or "/events"
	customer string
	key      string
	order    string
	amount   int // cents
}

func (c charge) body() string {
	return fmt.Sprintf(`{"order":%q,"amount":%d}`, c.order, c.amount)
}

// clientTimeout is how long a client waits for an answer.
const clientTimeout = 15 * time.Second

// client sends charges to one address. It uses each connection once: on a reused connection
// that breaks, net/http would send a request with a key again by itself, and the demo counts what is sent.
type client struct {
	base string // http://127.0.0.1:41234
	http *http.Client
}

func newClient(address string) *client {
	return &client{
		base: "http://" + address,
		http: &http.Client{Timeout: clientTimeout, Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

func (c *client) request(ctx context.Context, what charge) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+what.path, strings.NewReader(what.body()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+what.customer)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", strconv.Quote(what.key))
	return r, nil
}

// send sends the charge once and reads the answer.
func (c *client) send(ctx context.Context, what charge) reply {
	r, err := c.request(ctx, what)
	if err != nil {
		return reply{err: err}
	}
	res, err := c.http.Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return reply{status: res.StatusCode, header: res.Header, body: body, err: err}
}

var errAnswerLost = errors.New("the connection broke as the answer came")

// sendAndLose sends the charge and breaks the connection when the answer begins to arrive.
func (c *client) sendAndLose(ctx context.Context, what charge) reply {
	r, err := c.request(ctx, what)
	if err != nil {
		return reply{err: err}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.URL.Host)
	if err != nil {
		return reply{err: err}
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(clientTimeout))
	if err := r.Write(conn); err != nil {
		return reply{err: err}
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return reply{err: err}
	}
	_ = conn.(*net.TCPConn).SetLinger(0) // reset the connection: nothing that the other side still sends arrives
	return reply{err: errAnswerLost}
}

// reply is what a client received, or the error if it received nothing.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// kind sorts replies for the table.
type kind int

const (
	lost     kind = iota // no answer
	executed             // the API's own answer to this request
	accepted             // the proxy's answer to a request that it is going to deliver
	replayed             // the API's answer to an earlier request
	refused              // the proxy's refusal
)

func (r reply) kind() kind {
	switch {
	case r.err != nil:
		return lost
	case r.code() != "":
		return refused
	case r.header.Get("Idempotent-Replayed") == "true":
		return replayed
	case r.status == http.StatusAccepted:
		return accepted
	}
	return executed
}

// code is the code of a refusal, such as "request-in-flight"; empty for any other reply.
func (r reply) code() string {
	if !strings.HasPrefix(r.header.Get("Content-Type"), "application/problem+json") {
		return ""
	}
	var problem struct{ Code string }
	if err := json.Unmarshal(r.body, &problem); err != nil || problem.Code == "" {
		return "unknown problem"
	}
	return problem.Code
}

// inFlight reports whether the client is told to come back later, with the same key.
func (r reply) inFlight() bool { return r.code() == "request-in-flight" }

// retryAfter is how long the client is asked to wait.
func (r reply) retryAfter() time.Duration {
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		seconds = 1
	}
	return time.Duration(seconds) * time.Second
}

// summary is the answer in one line: its body, the code of a refusal, or why there is none.
func (r reply) summary() string {
	if r.err != nil {
		return reason(r.err)
	}
	if code := r.code(); code != "" {
		return code
	}
	return string(bytes.TrimSpace(r.body))
}

// reason says in plain words why there was no answer.
func reason(err error) string {
	var network net.Error
	switch {
	case errors.Is(err, errAnswerLost):
		return errAnswerLost.Error()
	case errors.Is(err, context.Canceled):
		return "the client hung up"
	case errors.As(err, &network) && network.Timeout():
		return "the client gave up waiting"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the connection broke"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no server listens there"
	}
	return err.Error()
}
