package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// patientWriter goes on when the client is gone: the upstream's answer is read to its end, and recorded.
type patientWriter struct {
	http.ResponseWriter
	gone bool
}

// Write implements http.ResponseWriter.
func (w *patientWriter) Write(b []byte) (int, error) {
	if !w.gone {
		_, err := w.ResponseWriter.Write(b)
		w.gone = err != nil
	}
	return len(b), nil
}

// Unwrap lets http.ResponseController find what is below.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func isEventStream(h http.Header) bool {
	const kind = "text/event-stream"
	given := h.Get("Content-Type")
	return len(given) >= len(kind) && strings.EqualFold(given[:len(kind)], kind)
}

// brokenAnswer is the error for an answer whose header came and whose body did not come whole.
type brokenAnswer struct{ err error }

func (e *brokenAnswer) Error() string { return fmt.Sprintf("the answer broke off: %v", e.err) }
func (e *brokenAnswer) Unwrap() error { return e.err }

// fetch reads the answer's body, up to a limit, before anything of it is passed on: an answer that breaks off can
// then still be told from a whole one. What is beyond the limit stays to be read.
func (f *forwarder) fetch(res *http.Response, body *fetchedBody) error {
	if res.Body == nil || res.Body == http.NoBody {
		return nil
	}
	buf := f.bodies.get()
	if n := res.ContentLength; n > 0 && n <= f.limit {
		buf.Grow(int(n) + bytes.MinRead)
	}
	body.limited = io.LimitedReader{R: res.Body, N: f.limit + 1}
	n, err := buf.ReadFrom(&body.limited)
	if err != nil {
		f.bodies.put(buf)
		return &brokenAnswer{err}
	}
	body.read, body.buf, body.pool = buf.Bytes(), buf, &f.bodies
	body.rest, body.more = res.Body, n > f.limit
	res.Body = body
	return nil
}

// fetchedBody gives what was fetched, and then the rest if there is more.
type fetchedBody struct {
	read []byte
	more bool
	rest io.ReadCloser
	buf  *bytes.Buffer
	pool *bodyPool

	limited io.LimitedReader // what is fetched of rest
}

// Read implements io.Reader.
func (b *fetchedBody) Read(p []byte) (int, error) {
	if len(b.read) > 0 {
		n := copy(p, b.read)
		b.read = b.read[n:]
		return n, nil
	}
	if b.more {
		return b.rest.Read(p)
	}
	return 0, io.EOF
}

// Close gives the buffer back and closes what was read from.
func (b *fetchedBody) Close() error {
	if b.buf != nil {
		b.pool.put(b.buf)
		b.buf, b.read, b.more = nil, nil, false
	}
	return b.rest.Close()
}

// largestKept bounds the buffers that wait to be used again.
const largestKept = 64 << 10

// bodyPool keeps buffers for fetched bodies.
type bodyPool struct{ pool sync.Pool }

func (p *bodyPool) get() *bytes.Buffer {
	if b, ok := p.pool.Get().(*bytes.Buffer); ok {
		return b
	}
	return new(bytes.Buffer)
}

func (p *bodyPool) put(b *bytes.Buffer) {
	if b.Cap() <= largestKept {
		b.Reset()
		p.pool.Put(b)
	}
}

// copyBuffers implements httputil.BufferPool.
type copyBuffers struct{ pool sync.Pool }

const copyBufferSize = 32 << 10

func (p *copyBuffers) Get() []byte {
	if b, ok := p.pool.Get().(*[copyBufferSize]byte); ok {
		return b[:]
	}
	return make([]byte, copyBufferSize)
}

func (p *copyBuffers) Put(b []byte) { p.pool.Put((*[copyBufferSize]byte)(b)) }
