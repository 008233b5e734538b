package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/httpsafe"
)

// holder is one request that is being served, and the resources that it holds. It stands between the request and its
// client, as the body of the request and as the http.ResponseWriter. So it knows when the request waits for its
// client, bounds that wait with deadlines, and lets admission end it.
type holder struct {
	http.ResponseWriter
	admission *admission
	request   http.Request // with the holder as its body, if it has one
	body      io.ReadCloser
	closed    atomic.Bool
	duplex    bool // the connection can be used again whatever is left of the body: HTTP/2
	status    int  // of the answer; 0: none yet
	refusal   httpsafe.Slug
	replays   string // the Traceparent of the request whose answer is replayed

	// Guarded by admission.mu.
	generation *generation // that serves it, until nothing of it runs any more; nil in tests
	slots      *resource   // the kind of slot that it has; nil: none
	index      int         // in admission.holders
	bytes      int64
	caller     string
	returned   bool // the handler has

	mu        sync.Mutex
	in, out   transfer
	read      bool          // the body, to its end, or there is none
	passed    bool          // the body is read for the upstream
	received  int64         // bytes of the body
	budget    time.Duration // how long writes may wait for the client from now on, all together; 0: no bound
	evictedAt time.Time
	ended     bool // the handler has returned or the connection was hijacked: it must not be used
}

// transfer is the flow of bytes from the client, or to it.
type transfer struct {
	timeout  time.Duration // for the next bytes; 0: none
	whole    bool          // the timeout is for everything
	deadline time.Time     // as set
	since    time.Time     // when the wait for the client began; zero: nothing waits
	until    time.Time     // when it last ended
	waited   time.Duration // for the bytes since the last step
	moved    int           // bytes since the last step
	evicted  bool
}

const (
	// step is how many bytes count as progress. A client that sends or reads one byte at a time makes none.
	step = 4 << 10
	// restOfBody is the time for a body that is not going to be read.
	restOfBody = time.Second
	// readByServer is how much of such a body net/http reads, to use the connection again.
	readByServer = 256 << 10
	// betweenWaits is how long after a wait the next one is expected.
	betweenWaits = 10 * time.Millisecond
	// chunk is how many bytes are written under one deadline.
	chunk = 64 << 10
)

// errSlowClient is the error of reads and writes for a client that kept the request waiting, and was given up.
var errSlowClient = fmt.Errorf("proxy: the client is too slow: %w", os.ErrDeadlineExceeded)

// newHolder puts a holder between a request and its client.
func newHolder(a *admission, w http.ResponseWriter, r *http.Request) *holder {
	h := &holder{ResponseWriter: w, admission: a, request: *r, body: r.Body, duplex: r.ProtoMajor > 1}
	h.out.timeout, h.in.timeout = max(a.limits.Load().WriteTimeout, 0), defaultBodyTimeout
	h.request.Header = withoutLease(r.Header)
	if at, ok := r.Header[httpsafe.AcceptedHeader]; ok && httpsafe.DeliveryFrom(r.Context()) != nil {
		h.request.Header[httpsafe.AcceptedHeader] = at // in the copy
	}
	removeLease(r.Trailer) // in place, because net/http fills it while the body is read
	if h.read = r.Body == nil || r.Body == http.NoBody; !h.read {
		h.request.Body = h // not that of r, which net/http uses to know what is left to be read
	}
	return h
}

// bodyWithin bounds the time for the body: for all of it if whole is set, otherwise from some bytes to the next.
func (h *holder) bodyWithin(timeout time.Duration, whole bool) {
	h.in.timeout, h.in.whole = max(timeout, 0), whole
}

// grow takes n bytes of memory, or gives them back if n is negative. It reports whether there were enough.
func (h *holder) grow(n int) bool { return h.admission.take(h, int64(n)) }

// Read implements io.Reader: it reads the request's body.
func (h *holder) Read(p []byte) (int, error) {
	if h.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if err := h.begin(&h.in); err != nil {
		return 0, err
	}
	n, err := h.body.Read(p)
	if err == io.EOF {
		removeLease(h.request.Trailer)
	}
	return n, h.pause(&h.in, n, err)
}

// Close implements io.Closer: what comes of the body is not read any more. The Transport calls it when the answer of an
// upstream that has not read everything has ended, and from Go 1.27 on ReverseProxy calls it before that answer has been
// sent. A Read may be waiting for the client then.
//
// With HTTP/2, closing the server's body ends that Read, and it has to end: with an upstream that speaks HTTP/2, too, the
// answer does not end for the Transport before that. With HTTP/1 the server's Close would wait for the Read, so that the
// server closes that body itself, when the handler has returned.
func (h *holder) Close() error {
	h.closed.Store(true)
	if h.duplex {
		return h.body.Close()
	}
	return nil
}

// WriteHeader implements http.ResponseWriter.
func (h *holder) WriteHeader(status int) {
	if h.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		h.status = status
		h.readRest()
		h.answers()
	}
	_ = h.begin(&h.out) // the next Write returns the error
	removeLease(h.Header())
	h.ResponseWriter.WriteHeader(status)
	_ = h.pause(&h.out, 0, nil)
}

// Status returns the status of the answer; 0: none yet. httpsafe.Observe asks for it.
func (h *holder) Status() int { return h.status }

// NoteProblem implements httpsafe.ProblemNoter.
func (h *holder) NoteProblem(p httpsafe.Problem) { h.refusal = p.Slug }

// NoteReplay implements httpsafe.ReplayNoter.
func (h *holder) NoteReplay(traceparent string) { h.replays = traceparent }

// Write implements http.ResponseWriter.
func (h *holder) Write(p []byte) (int, error) {
	if h.status == 0 {
		h.WriteHeader(http.StatusOK)
	}
	written := 0
	for {
		if err := h.begin(&h.out); err != nil {
			return written, err
		}
		n, err := h.ResponseWriter.Write(p[written:min(len(p), written+chunk)])
		written += n
		if err = h.pause(&h.out, n, err); err != nil || written >= len(p) {
			return written, err
		}
	}
}

// Flush implements http.Flusher.
func (h *holder) Flush() { _ = h.FlushError() }

// FlushError is called by http.ResponseController.
func (h *holder) FlushError() error {
	if err := h.begin(&h.out); err != nil {
		return err
	}
	if h.status == 0 {
		removeLease(h.Header())
	}
	return h.pause(&h.out, 0, http.NewResponseController(h.ResponseWriter).Flush())
}

// Hijack implements http.Hijacker. The new owner of the connection bounds its time.
func (h *holder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.ended = h.ended || err == nil
	return conn, rw, err
}

// Unwrap lets http.ResponseController find what is below.
func (h *holder) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// EnableFullDuplex is called by http.ResponseController when the upstream gets what is left of the body. Otherwise net/http
// closes the body when an answer begins over HTTP/1, and the Transport, which may still have to see its end, breaks off
// the answer: without this, Connect's conformance suite in integration/judges loses one answer of gRPC-Web in two hundred.
//
// It is not for answers of this proxy: net/http then panics if it finds the end of the body after the handler has
// returned (golang.org/issue/68560), and takes a rest that comes later for the next request.
func (h *holder) EnableFullDuplex() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.read || h.passed {
		return nil
	}
	h.passed = true
	return http.NewResponseController(h.ResponseWriter).EnableFullDuplex()
}

// readRest reads what was left for the upstream, if the proxy answers in its place. net/http does the same where the upstream
// was to get nothing, so that the connection can be used again.
func (h *holder) readRest() {
	h.mu.Lock()
	isLeft := h.isLeft() && h.refusal != "" && !h.in.evicted && h.request.Header.Get("Expect") == ""
	if isLeft {
		h.setDeadline(&h.in, time.Now().Add(restOfBody))
	}
	h.mu.Unlock()
	if isLeft {
		_, err := io.CopyN(io.Discard, h.body, readByServer+1)
		h.mu.Lock()
		h.read = errors.Is(err, io.EOF)
		h.mu.Unlock()
	}
}

// isLeft reports whether some of the body that was for the upstream may still come over HTTP/1, where the next request
// comes after it.
func (h *holder) isLeft() bool { return h.passed && !h.duplex && !h.read && !h.ended }

// answers notes that the answer begins, and the body has perhaps not arrived completely.
//
// With HTTP/1, net/http reads the rest before an answer of this proxy, and ends the connection if there is too much or
// it comes too late. What the upstream gets keeps its timeout; see end. While little is left of that, it is not known
// yet whether the connection ends, and a long answer does not say so; for a short one, closeAfterAnswer comes in time.
// If it was always said, about every tenth answer of an upstream that answers at once would cost a connection, however
// small the body.
//
// With HTTP/2 client and upstream may then talk in both directions, as in gRPC, and pause for as long as they like.
func (h *holder) answers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isLeft() && h.status != http.StatusSwitchingProtocols &&
		(h.refusal != "" || h.request.ContentLength-h.received > readByServer) {
		h.Header().Set("Connection", "close") // as net/http says without full duplex
	}
	switch {
	case h.ended || h.read || h.in.evicted:
	case !h.duplex && !h.passed:
		h.setDeadline(&h.in, time.Now().Add(restOfBody))
	case h.in.timeout == 0 || h.duplex && h.in.whole:
	case !h.duplex:
		h.setDeadline(&h.in, time.Now().Add(h.in.timeout))
	default:
		h.in.timeout = 0
		if !h.in.since.IsZero() {
			h.setDeadline(&h.in, time.Time{})
		}
	}
}

// allowWait bounds how long writes may wait for the client from now on, in total.
func (h *holder) allowWait(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.budget = d
}

// begin says that the request now waits for its client.
func (h *holder) begin(t *transfer) error {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ended:
		return nil
	case t.evicted || t == &h.out && h.budget < 0:
		return errSlowClient
	}
	t.since = now
	timeout := t.timeout
	if t == &h.out && h.budget > 0 && (timeout == 0 || h.budget < timeout) {
		timeout = h.budget
	}
	switch {
	case timeout == 0 && !t.deadline.IsZero():
		h.setDeadline(t, time.Time{})
	case timeout == 0 || t.whole && !t.deadline.IsZero():
	default:
		// Setting a deadline has a cost, so one that differs little is kept.
		if later := now.Add(timeout).Sub(t.deadline); later < 0 || later >= timeout/8 {
			h.setDeadline(t, now.Add(timeout))
		}
	}
	return nil
}

func (h *holder) setDeadline(t *transfer, at time.Time) {
	t.deadline = at
	control := http.NewResponseController(h.ResponseWriter)
	if t == &h.in {
		_ = control.SetReadDeadline(at) // a connection may not support deadlines
		return
	}
	_ = control.SetWriteDeadline(at)
}

// pause says that n bytes have moved, and that the request no longer waits for its client.
func (h *holder) pause(t *transfer, n int, err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.since.IsZero() {
		return err
	}
	now := time.Now()
	waited := now.Sub(t.since)
	t.since, t.until = time.Time{}, now
	if t.moved, t.waited = t.moved+n, t.waited+waited; t.moved >= step {
		t.moved, t.waited = 0, 0
	}
	if t == &h.out && h.budget > 0 {
		if h.budget -= waited; h.budget == 0 {
			h.budget = -1
		}
	}
	if t == &h.in {
		h.received += int64(n)
		h.read = h.read || errors.Is(err, io.EOF)
	}
	if t.evicted || err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		t.evicted = true
		return errSlowClient
	}
	return err
}

// gaveUpBody reports whether the body was sent too slowly.
func (h *holder) gaveUpBody() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.in.evicted
}

// stalledAt returns for how long the request has been waiting for its client, and how long ago it was evicted. 0: it
// is not waiting, or was not evicted.
func (h *holder) stalledAt(now time.Time) (waiting, evicted time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.evictedAt.IsZero() {
		return 0, max(now.Sub(h.evictedAt), 1)
	}
	for _, t := range []*transfer{&h.in, &h.out} {
		switch {
		case h.ended:
		case !t.since.IsZero():
			waiting = max(waiting, t.waited+now.Sub(t.since), 1)
		case t.waited > 0 && now.Sub(t.until) < betweenWaits:
			waiting = max(waiting, 1) // it is not waiting now, but will be again
		}
	}
	return waiting, 0
}

// evict ends the wait for the client. The goroutine of the request notices it, answers if it can, and returns.
func (h *holder) evict() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || !h.evictedAt.IsZero() {
		return false
	}
	sending := !h.out.since.IsZero()
	if sending {
		h.out.evicted = true
		h.setDeadline(&h.out, time.Unix(1, 0))
	}
	receiving := !h.in.since.IsZero() || sending && !h.read // a write may be reading the rest of the body
	if receiving {
		h.in.evicted = true
		h.setDeadline(&h.in, time.Unix(1, 0))
	}
	if sending || receiving {
		h.evictedAt = time.Now()
	}
	return sending || receiving
}

// end says that the handler has returned. net/http still has to write, and to read before the next request; that is
// bounded too.
func (h *holder) end() {
	if h.bound() {
		// The Transport may still be reading it: net/http would wait for that, and then for the client, without a bound.
		_ = h.body.Close()
	}
}

// bound bounds what net/http still does, and reports whether some of the body is left.
func (h *holder) bound() (isLeft bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended && h.status != 0 {
		removeLease(h.Header()) // trailers are sent after this
	}
	switch isLeft = h.isLeft(); {
	case isLeft:
		closeAfterAnswer(h.ResponseWriter) // what comes of it would be taken for the next request
		h.setDeadline(&h.in, time.Unix(1, 0))
	case !h.ended && !h.read && !h.in.evicted && (h.duplex || h.status == 0):
		h.setDeadline(&h.in, time.Now().Add(restOfBody))
	}
	if !h.ended && !h.out.evicted && h.out.timeout > 0 {
		h.budget, h.out.since = 0, time.Time{}
		if now := time.Now(); now.Add(h.out.timeout).Sub(h.out.deadline) >= h.out.timeout/8 {
			h.setDeadline(&h.out, now.Add(h.out.timeout))
		}
	}
	h.ended = true
	return isLeft
}

// closeAfterAnswer has the server close an HTTP/1 connection after the answer, although that may have begun: a
// ResponseWriter has no method for that, but http.MaxBytesReader tells it.
func closeAfterAnswer(w http.ResponseWriter) {
	for {
		_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader("xx")), 1).Read(make([]byte, 2))
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = inner.Unwrap()
	}
}
