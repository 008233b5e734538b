package httpsafe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/retrysafe/retrysafe"
)

// recorder is the http.ResponseWriter that a handler writes to. It holds the response back until the record is saved.
// If the handler flushes, hijacks or writes more than is stored, the response is sent as it is written, and the
// record says only that there was one.
//
// A recorder is never pooled, and refers to no pooled memory once it has ended, so that a handler that uses it after
// returning can do no harm.
type recorder struct {
	m       *middleware
	w       http.ResponseWriter
	r       *http.Request // as it came in
	checks  checks
	account *account
	echo    field // the key's header as received
	ctx     handlerContext
	request requestBody
	values  [4]string // header values

	mu       sync.Mutex
	state    recorderState
	current  response
	sealed   response        // by a transaction; its memory is nil if there is none
	offered  bool            // to transactions
	captured bool            // by a transaction, whether or not it was committed
	late     bool            // the handler went on to answer after a transaction had committed the response
	override retrysafe.Class // what the handler says of its outcome; 0: nothing
}

type recorderState uint8

const (
	recording recorderState = iota
	streaming               // written through
	hijacked
	ended // the handler has returned
)

var errEnded = errors.New("httpsafe: the handler has returned")

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.w.Header() }

// WriteHeader implements http.ResponseWriter. Interim responses are sent at once and not recorded.
func (r *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("httpsafe: invalid WriteHeader code %v", status)) // net/http panics, too
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.state == ended || r.state == hijacked || r.current.status != 0:
	case r.isSaved():
		r.late = r.late || status >= 200 && status != r.sealed.status
	case status < 200 && status != http.StatusSwitchingProtocols:
		r.w.WriteHeader(status)
	default:
		r.begin(status)
	}
}

// begin records the status and the header.
func (r *recorder) begin(status int) {
	r.current.begin(status, r.w.Header())
	if status == http.StatusSwitchingProtocols && !r.m.CompletedElsewhere {
		r.stream()
	}
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w, err := r.room(len(p)); err != nil {
		return 0, err
	} else if w != nil {
		return w.Write(p)
	}
	r.current.body = append(r.current.body, p...)
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (r *recorder) WriteString(s string) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w, err := r.room(len(s)); err != nil {
		return 0, err
	} else if w != nil {
		return io.WriteString(w, s)
	}
	r.current.body = append(r.current.body, s...)
	return len(s), nil
}

// room prepares for n more bytes. They go to the writer that it returns, or are recorded if that is nil.
func (r *recorder) room(n int) (io.Writer, error) {
	switch r.state {
	case ended:
		return nil, errEnded
	case hijacked:
		return nil, http.ErrHijacked
	}
	if r.isSaved() {
		r.late = r.late || n > 0
		return nil, errSaved
	}
	p := &r.current
	if p.status == 0 {
		r.begin(http.StatusOK)
	}
	switch size := int64(len(p.body) + n); {
	case r.state == streaming:
		return r.w, nil
	case !bodyAllowed(p.status):
		return nil, http.ErrBodyNotAllowed
	case p.length >= 0 && size > p.length:
		return nil, http.ErrContentLength
	case p.omitted: // only of attempts that are completed elsewhere
		return io.Discard, nil
	case max(size, p.length) > int64(r.m.policy.MaxResult) || r.account.grow(p.memory, n, p.length) != nil:
		if r.m.CompletedElsewhere { // the client gets the stored response, or none of the body
			p.body, p.omitted = p.body[:0], true
			return io.Discard, nil
		}
		r.stream()
		return r.w, nil
	}
	return nil, nil
}

// ReadFrom implements io.ReaderFrom.
func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	r.mu.Lock()
	through := r.state == streaming
	r.mu.Unlock()
	if through {
		return io.Copy(r.w, src)
	}
	mem := r.m.getMemory()
	defer r.m.putMemory(mem)
	if cap(mem.body) < 32<<10 {
		mem.body = make([]byte, 0, 32<<10)
	}
	return io.CopyBuffer(struct{ io.Writer }{r}, src, mem.body[:cap(mem.body)])
}

// stream sends what is recorded so far. From then on the response is sent as it is written.
func (r *recorder) stream() {
	p := &r.current
	h := r.w.Header()
	p.restore(h)
	if p.length >= 0 {
		h["Content-Length"] = []string{fmt.Sprint(p.length)}
	}
	r.m.setStatus(h, "executed")
	r.m.setEcho(h, r.echo)
	r.m.setResultHeader(h, true)
	r.w.WriteHeader(p.status)
	if len(p.body) > 0 {
		r.w.Write(p.body)
	}
	p.body, p.omitted, r.state = p.body[:0], true, streaming
}

// Flush implements http.Flusher.
func (r *recorder) Flush() { _ = r.FlushError() }

// FlushError is called by http.ResponseController. It sends what is recorded so far, unless flushes are buffered.
func (r *recorder) FlushError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.state == ended:
		return errEnded
	case r.state == hijacked:
		return http.ErrHijacked
	case r.isSaved():
		return nil // it is sent when the handler returns
	case r.current.status == 0:
		r.begin(http.StatusOK)
	}
	if r.state == recording {
		if r.buffersFlushes() {
			return nil
		}
		r.stream()
	}
	return http.NewResponseController(r.w).Flush()
}

// buffersFlushes reports whether a flush is ignored. Event streams are always sent as they are written, because their
// clients wait for events and the stream may never end; unless the record decides what the client gets.
func (r *recorder) buffersFlushes() bool {
	isEvents := strings.HasPrefix(first(r.current.get("Content-Type")), "text/event-stream")
	return r.m.BufferFlushes && !isEvents || isDetached(r.w) || r.m.CompletedElsewhere
}

// Hijack implements http.Hijacker. What is sent over the connection is not recorded.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.state == ended:
		return nil, nil, errEnded
	case r.isSaved():
		return nil, nil, errSaved
	case r.m.CompletedElsewhere:
		return nil, nil, fmt.Errorf("httpsafe: the record decides what the client gets: %w", http.ErrNotSupported)
	}
	conn, rw, err := http.NewResponseController(r.w).Hijack()
	if err == nil {
		r.state, r.current.omitted = hijacked, true
	}
	return conn, rw, err
}

// Unwrap lets http.ResponseController set deadlines and full duplex.
func (r *recorder) Unwrap() http.ResponseWriter { return r.w }
