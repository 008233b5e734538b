package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patientWriter accepts writes after the client has disconnected, so that the upstream's answer is read to its end
// and recorded.
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

// brokenAnswer is the error for an answer whose header arrived and whose body did not arrive completely.
type brokenAnswer struct{ err error }

func (e *brokenAnswer) Error() string { return fmt.Sprintf("the answer broke off: %v", e.err) }
func (e *brokenAnswer) Unwrap() error { return e.err }

// watchedBody is the body of an answer that is streamed. The log says why it broke off.
type watchedBody struct {
	io.ReadCloser
	entry *logEntry
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.entry.fail(&brokenAnswer{err})
	}
	return n, err
}

// letClientWait bounds for how long an answer that is streamed may wait for the client to read it: half of the time
// that the attempt has left. The rest of the answer can then still be read, and its end recorded.
func (entry *logEntry) letClientWait() {
	if deadline, ok := entry.watch.base.Deadline(); ok {
		entry.holder.allowWait(max(time.Until(deadline)/2, 1))
	}
}

// fetch reads the body of the answer, up to a limit, before any of it is passed on, so that an answer that breaks off
// is not taken for a complete one. What exceeds the limit, or the available memory, is left to be streamed. If the answer
// is not streamed (whole), the rest is read too, and the body is dropped.
func (f *forwarder) fetch(res *http.Response, entry *logEntry, whole bool) error {
	if res.Body == nil || res.Body == http.NoBody || res.ContentLength > f.limit && !whole {
		return nil
	}
	body := &entry.fetched
	body.buf, body.pool, body.rest, body.holder = f.bodies.get(), &f.bodies, res.Body, entry.holder
	var err error
	for err == nil && !body.more {
		if body.buf.Available() == 0 && !body.grow(min(res.ContentLength, f.limit)) {
			body.more = true
			break
		}
		var n int
		free := body.buf.AvailableBuffer()
		n, err = res.Body.Read(free[:cap(free)])
		body.buf.Write(free[:n])
		body.more = int64(body.buf.Len()) > f.limit
	}
	if body.more && whole {
		err = drop(res, int64(body.buf.Len()))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		body.release()
		return &brokenAnswer{err}
	}
	body.read = body.buf.Bytes()
	res.Body = body
	return nil
}

// drop reads the rest of an answer that is too large to be kept, and leaves its length in the header. Without a body of
// that length the answer counts as one that was not kept.
func drop(res *http.Response, read int64) error {
	rest, err := io.Copy(io.Discard, res.Body)
	res.Header.Set("Content-Length", strconv.FormatInt(read+rest, 10))
	return err
}

// fetchedBody returns what was fetched, and then the rest if there is more.
type fetchedBody struct {
	read []byte
	more bool
	rest io.ReadCloser

	buf     *bytes.Buffer
	pool    *bodyPool
	holder  *holder
	counted int // bytes of buf that holder has been granted
}

// firstFetch is the first step in which a buffer grows, in bytes. It is not counted; most answers need no more.
const firstFetch = 4 << 10

// grow makes room for more. length is that of the whole answer; -1 if it is unknown.
func (b *fetchedBody) grow(length int64) bool {
	size := max(2*b.buf.Len(), firstFetch)
	if length >= 0 {
		size = int(length) + 1 // one more byte, to see the end
	}
	if size <= b.buf.Len() { // more than was announced
		size = 2 * b.buf.Len()
	}
	if size > firstFetch {
		if !b.holder.grow(size - b.counted) {
			return false
		}
		b.counted = size
	}
	b.buf.Grow(size - b.buf.Len())
	return true
}

// release returns the buffer to the pool, and its memory to the holder.
func (b *fetchedBody) release() {
	if b.buf == nil {
		return
	}
	b.pool.put(b.buf)
	if b.counted > 0 {
		b.holder.grow(-b.counted)
	}
	b.buf, b.read, b.counted = nil, nil, 0
}

// Read implements io.Reader.
func (b *fetchedBody) Read(p []byte) (int, error) {
	if len(b.read) > 0 {
		n := copy(p, b.read)
		b.read = b.read[n:]
		return n, nil
	}
	if b.more {
		b.release() // the client may read slowly from here on
		return b.rest.Read(p)
	}
	return 0, io.EOF
}

// Close returns the buffer and closes the body of the answer.
func (b *fetchedBody) Close() error {
	b.release()
	b.more = false
	return b.rest.Close()
}

// largestKept bounds the buffers that are kept for reuse, in bytes.
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
