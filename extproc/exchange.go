package extproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// phase is how far a request is.
type phase uint8

const (
	deciding  phase = iota // Envoy holds the request
	forwarded              // Envoy has been told to send it to the service
	answering              // Envoy holds the answer
	over                   // Envoy needs nothing more
)

// exchange is one request, from the first message about it to the reply to the last. The goroutine of the call runs the
// handler, and another one reads Envoy's messages.
type exchange struct {
	options Options
	call    *call
	ctx     context.Context // ends when Envoy is gone, or has answered by itself
	leave   context.CancelCauseFunc
	wake    chan struct{} // something below has changed; for the one goroutine that waits
	header  http.Header   // of the request, as Envoy has it
	length  int64         // of its body; -1: unknown

	// Held while a message is sent, because Envoy gets them in the order of what they are about. Only this request waits.
	mu       sync.Mutex
	phase    phase
	pending  kind        // the message that Envoy waits to have answered; 0: none
	timer    *time.Timer // until more time is asked for
	asked    bool        // for the request's body
	body     *message    // the request's; nil: not here yet
	answer   *message    // the header of the answer
	asksPart bool        // for the body of the answer
	part     *message    // the body of the answer, or the beginning of it
	failure  error       // what ends the call

	deadline deadline // for body
}

// deadline may be set while another goroutine waits. It starts as the zero time: there is none.
type deadline struct{ at atomic.Pointer[time.Time] }

func (d *deadline) get() time.Time {
	if d != nil {
		if at := d.at.Load(); at != nil {
			return *at
		}
	}
	return time.Time{}
}

var (
	errLeft     = errors.New("extproc: Envoy has ended the request")
	errAnswered = errors.New("extproc: Envoy has answered the request by itself")
)

// errPanicked goes to Envoy, so it does not hold the panic's value, which may be a secret.
var errPanicked = errors.New("extproc: the handler panicked")

var errTooLarge = &callError{codeResourceExhausted, "extproc: the answer is larger than Options.MaxAnswer"}

type exchangeKey struct{}

func newExchange(ctx context.Context, o Options, c *call, first *message) *exchange {
	x := &exchange{options: o, call: c, wake: make(chan struct{}, 1)}
	x.ctx, x.leave = context.WithCancelCause(ctx)
	x.header, _ = first.headerOf()
	x.length = lengthOf(x.header)
	return x
}

// serve runs the handler, and gives Envoy what it has answered.
func (x *exchange) serve(h http.Handler, r *http.Request) (err error) {
	w := &writer{exchange: x, header: http.Header{}}
	func() {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			x.fail(errPanicked)
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				x.options.ErrorLog.Printf("extproc: panic serving a request: %v\n%s", p, debug.Stack())
			}
		}()
		h.ServeHTTP(w, r.WithContext(context.WithValue(x.ctx, exchangeKey{}, x)))
	}()
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.timer.Stop()
	w.WriteHeader(http.StatusOK) // unless it has
	switch {
	case x.failure != nil:
		return x.failure
	case x.phase == over:
		return nil
	case x.ctx.Err() != nil:
		x.phase = over
		return context.Cause(x.ctx)
	case w.tooLarge:
		x.phase = over
		return errTooLarge
	case x.phase == answering && x.pending != 0 && w.repeats(x):
		from, _ := x.answer.headerOf()
		var next *mode
		if x.pending == responseHeaders {
			next = &mode{response: true} // the rest is passed on as it comes
		}
		return x.reply(changes(from, w.sent), next, over)
	}
	x.phase = over
	var body []byte
	if r.Method != http.MethodHead {
		body = w.body
	}
	return x.call.send(appendImmediate(nil, w.status, changes(nil, w.sent), body))
}

// read reads what Envoy sends until it has ended the call, or the call has ended.
func (x *exchange) read() {
	for {
		b, err := x.call.receive()
		if err != nil {
			if wrong := new(callError); errors.As(err, &wrong) {
				x.fail(err)
			}
			x.leave(errLeft)
			return
		}
		m, err := parse(b)
		if err == nil {
			err = x.deliver(m)
		}
		if err != nil {
			x.fail(err)
			return
		}
	}
}

// deliver takes a message. One that does not fit ends the call with an error, after which Envoy does not send the
// request.
func (x *exchange) deliver(m *message) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.phase == over:
		return nil
	case m.kind == requestTrailers || m.kind == responseTrailers: // nothing is decided by them
		return x.call.send(appendContinue(nil, m.kind, mutation{}, nil))
	case m.kind == requestBody && x.phase == deciding && x.asked && x.body == nil:
		if !m.end && x.length > int64(len(m.body)) {
			return errors.New("extproc: Envoy has sent a part of a body: write request_body_mode: BUFFERED")
		}
		x.body = m
	case m.kind == responseHeaders && x.phase == deciding:
		if x.body == nil && x.asked && m.fromService() {
			x.options.ErrorLog.Print("extproc: Envoy has sent a request to the service before its body was seen here, so that " +
				"it was not protected: write request_body_mode: BUFFERED and allow_mode_override: true (docs/envoy.md)")
		}
		x.pending, x.phase = responseHeaders, over
		x.leave(errAnswered)
		return x.call.send(appendContinue(nil, m.kind, mutation{}, &mode{}))
	case m.kind == responseHeaders && x.phase == forwarded:
		x.answer, x.phase = m, answering
	case m.kind == responseBody && x.phase == answering && x.asksPart && x.part == nil:
		x.part = m
	default:
		return fmt.Errorf("extproc: Envoy's message %d does not fit: the filter's processing_mode must be that of "+
			"docs/envoy.md", m.kind)
	}
	x.await(m.kind)
	x.signal()
	return nil
}

// await notes that Envoy waits for a reply, and asks it for more time if the reply is late. Envoy accepts that once for
// each of its messages.
func (x *exchange) await(k kind) {
	x.pending = k
	x.timer = time.AfterFunc(x.options.AskAfter, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.pending == k && x.phase != over {
			_ = x.call.send(appendMoreTime(nil, x.options.MoreTime)) // a call that is broken is noticed by read
		}
	})
}

// reply lets the message pass that Envoy waits to have answered. The mutex is held.
func (x *exchange) reply(change mutation, next *mode, now phase) error {
	x.timer.Stop()
	k := x.pending
	x.pending, x.phase = 0, now
	return x.call.send(appendContinue(nil, k, change, next))
}

// fail ends the call with an error.
func (x *exchange) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase != over {
		x.phase, x.failure = over, err
	}
	x.leave(err)
}

func (x *exchange) signal() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// until waits until is reports true, which it is asked with the mutex held, and returns with the mutex held. deadline
// may be nil.
func (x *exchange) until(ctx context.Context, deadline *deadline, is func() bool) error {
	x.mu.Lock()
	for !is() {
		x.mu.Unlock()
		err := x.wait(ctx, deadline)
		x.mu.Lock()
		if err != nil && !is() {
			return err
		}
	}
	return nil
}

func (x *exchange) wait(ctx context.Context, deadline *deadline) error {
	var late <-chan time.Time
	if at := deadline.get(); !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-x.wake:
		return nil
	case <-x.ctx.Done():
		return context.Cause(x.ctx)
	case <-ctx.Done():
		return ctx.Err()
	case <-late:
		return os.ErrDeadlineExceeded
	}
}

// requestReader is the body of the request. Envoy is asked for it when it is read.
type requestReader struct{ *exchange }

// Read implements io.Reader.
func (b *requestReader) Read(p []byte) (int, error) {
	x := b.exchange
	err := x.until(x.ctx, &x.deadline, func() bool {
		if !x.asked && x.phase == deciding {
			x.asked = true
			if err := x.reply(mutation{}, &whole, deciding); err != nil {
				x.leave(err)
			}
		}
		return x.body != nil || x.phase != deciding
	})
	defer x.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case x.body == nil:
		return 0, errors.New("extproc: the body was not read before the request was sent")
	}
	n := copy(p, x.body.body)
	x.body.body = x.body.body[n:]
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close implements io.Closer.
func (b *requestReader) Close() error { return nil }

// whole asks for all bodies. With BUFFERED an answer that does not fit into Envoy's buffer would become an error after
// the service has run, and with BUFFERED_PARTIAL it is passed on.
var whole = mode{response: true, requestBody: bodyBuffered, responseBody: bodyPartial}

// writer is what the handler answers with. Nothing of it is sent before the handler has returned.
type writer struct {
	*exchange
	header, sent http.Header
	status       int
	body         []byte
	tooLarge     bool // the body is not all of the answer
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status, w.sent = status, w.header.Clone()
	}
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if len(w.body)+len(p) > w.options.MaxAnswer {
		w.tooLarge = true
		return 0, errTooLarge
	}
	w.body = append(w.body, p...)
	return len(p), nil
}

// Flush implements http.Flusher.
func (w *writer) Flush() { w.WriteHeader(http.StatusOK) }

// SetReadDeadline is called by http.ResponseController. It ends a Read of the request's body, and nothing else: a
// service may take longer to answer than a client to send. It does not wait for the mutex: package proxy calls it with a
// lock that all requests need, and an Envoy that does not read may hold the mutex up.
func (w *writer) SetReadDeadline(at time.Time) error {
	w.deadline.at.Store(&at)
	w.signal()
	return nil
}

// repeats reports whether the handler has answered what the service has, so that Envoy can pass it on. The mutex is
// held.
func (w *writer) repeats(x *exchange) bool {
	_, pseudo := x.answer.headerOf()
	var given []byte
	if x.part != nil {
		given = x.part.body
	}
	return pseudo[":status"] == fmt.Sprint(w.status) && bytes.Equal(given, w.body)
}
