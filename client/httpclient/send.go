package httpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/internal/httpsignals"
)

// reply is what came of one request: a response, or an error.
type reply struct {
	response *http.Response // its body can be read from the beginning
	start    []byte         // of the body, as far as it was read
	err      error
	sent     bool // something may have reached the server; true if there is a response
}

// send sends the request once.
func (c *call) send(ctx context.Context, e *client.Entry) reply {
	if err := ctx.Err(); err != nil { // a base would say so too, but not that nothing was sent
		return reply{err: err}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := &wire{}
	r := c.fresh(httptrace.WithClientTrace(ctx, w.trace()), e)
	if authorize := c.t.options.AuthorizeFunc; authorize != nil {
		if err := authorize(r, e.Credential, c.refused); err != nil {
			cancel(nil)
			return reply{err: &authorizeError{err}}
		}
	}
	stop := c.t.patience(cancel)
	response, err := c.t.options.Base.RoundTrip(r)
	if err != nil {
		stop()
		cancel(nil)
		return reply{err: whyEnded(ctx, err), sent: w.maySent()}
	}
	out := reply{response: response, sent: true}
	err = out.read(c.t.options.MaxResponse)
	stop()
	if err != nil {
		response.Body.Close()
		cancel(nil)
		return reply{err: fmt.Errorf("the answer broke off: %w", whyEnded(ctx, err)), sent: true}
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		response.Body = &closing{ReadCloser: response.Body, after: func() error { cancel(nil); return nil }}
	}
	return out
}

// authorizeError says that there is no credential: nothing was sent and nothing is tried again.
type authorizeError struct{ error }

func (e *authorizeError) Error() string { return "httpclient: authorize: " + e.error.Error() }
func (e *authorizeError) Unwrap() error { return e.error }

// errPatience ends an attempt whose time is over.
var errPatience = fmt.Errorf("httpclient: no answer within AttemptTimeout: %w", context.DeadlineExceeded)

// patience ends the attempt after its time, unless stop is called first.
func (t *Transport) patience(cancel context.CancelCauseFunc) (stop func()) {
	if t.options.AttemptTimeout < 0 {
		return func() {}
	}
	timer := time.AfterFunc(t.options.AttemptTimeout, func() { cancel(errPatience) })
	return func() { timer.Stop() }
}

// whyEnded prefers the reason for which the attempt was ended to what became of it.
func whyEnded(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errPatience) {
		return cause
	}
	return err
}

// read reads the beginning of the body, so that an answer that breaks off is noticed while the request can be sent
// again.
func (p *reply) read(limit int64) error {
	body := p.response.Body
	if p.response.StatusCode >= http.StatusMultipleChoices {
		limit = max(limit, httpsignals.MaxBody) // what it says matters to us
	}
	if limit < 0 || isStream(p.response) {
		return nil
	}
	start, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return err
	}
	p.start = start
	if int64(len(start)) <= limit { // that is all of it
		body.Close()
		p.response.Body = io.NopCloser(bytes.NewReader(start))
		return nil
	}
	p.response.Body = &rejoined{io.MultiReader(bytes.NewReader(start), body), body}
	return nil
}

// isStream reports whether the body of a response ends at an unknown time.
func isStream(r *http.Response) bool {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return r.StatusCode == http.StatusSwitchingProtocols || mediaType == "text/event-stream"
}

// Discard implements client.Exchange. A body that was not read to its end closes its connection: how long the rest
// of it takes is unknown.
func (c *call) Discard() {
	if c.response != nil {
		c.response.Body.Close()
	}
}

// rejoined is a body whose beginning was read.
type rejoined struct {
	io.Reader
	io.Closer
}

// closing calls after once, when the body has been closed.
type closing struct {
	io.ReadCloser
	once  sync.Once
	after func() error
}

// Close implements io.Closer.
func (c *closing) Close() error {
	err := c.ReadCloser.Close()
	c.once.Do(func() { err = errors.Join(err, c.after()) })
	return err
}

// answer is the body that the caller gets. When it is closed, it says whether the caller has the answer: not if reading
// it has failed, because the connection broke or the context ended.
type answer struct {
	io.ReadCloser
	broke atomic.Bool
	once  sync.Once
	done  func(read bool) error
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		a.broke.Store(true)
	}
	return n, err
}

// Close implements io.Closer.
func (a *answer) Close() error {
	err := a.ReadCloser.Close()
	a.once.Do(func() { err = errors.Join(err, a.done(!a.broke.Load())) })
	return err
}

// wire knows whether anything of a request may have reached the server: whether net/http wanted a connection, and got
// one.
type wire struct{ wanted, got atomic.Bool }

func (w *wire) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { w.wanted.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { w.got.Store(true) },
	}
}

// maySent reports whether something may have been sent: not if a connection was wanted and never made. A base that
// reports neither may have sent.
func (w *wire) maySent() bool { return w.got.Load() || !w.wanted.Load() }
