package httpsafe

import (
	"crypto/sha256"
	"hash"
	"io"
	"net/http"
	"sync"
)

// observedBody is the body of an observed request. It passes on each read, and digests what was read: it never reads by
// itself, so that the handler decides how much of the body is read, and when. It may be read until the handler has
// returned, by any goroutine.
type observedBody struct {
	io.ReadCloser // the request's
	s             *observedRequest
	length        int64         // as announced; -1: unknown
	whole         chan struct{} // closed when the body has been read, or need not be
	outer, inner  *http.Request // as it came in, and as the handler has it

	mu    sync.Mutex
	hash  hash.Hash // of the bytes, if nothing else is compared; nil: they are kept
	kept  []byte
	taken int64 // of the memory for kept
	n     int64
	done  bool     // whole is closed
	ended bool     // the handler has returned
	fault Observed // why the body cannot be compared; 0: it can
}

func newObservedBody(s *observedRequest, r *http.Request) *observedBody {
	c := s.b.config
	b := &observedBody{ReadCloser: r.Body, s: s, length: r.ContentLength, whole: make(chan struct{})}
	needed := c.needsBody()
	switch {
	case r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0, c.fingerprint.streams && !needed:
		b.finish()
	case r.ContentLength > c.MaxRequestBody:
		b.fault = ObservedRefused
		b.finish()
	case !needed && (c.fingerprint.raw || c.fingerprint.ofBody == nil):
		b.hash = sha256.New()
	}
	return b
}

// wanted reports whether the handler is to read the body through b.
func (b *observedBody) wanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.done
}

// Read implements io.Reader.
func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF { // trailers that were not announced have arrived with it
		b.inner.Trailer = b.outer.Trailer
	}
	b.take(p[:n], err == io.EOF)
	return n, err
}

// take digests what the handler has read.
func (b *observedBody) take(p []byte, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done || b.ended {
		return
	}
	b.n += int64(len(p))
	switch {
	case b.n > b.s.b.MaxRequestBody:
		b.fault = ObservedRefused
	case b.hash != nil:
		b.hash.Write(p)
	case b.s.b.seen.grow(int64(len(p))):
		b.taken += int64(len(p))
		b.kept = append(b.kept, p...)
	default:
		b.fault = ObservedBusy
	}
	if last || b.n == b.length || b.fault != 0 {
		b.finish()
	}
}

func (b *observedBody) finish() {
	b.done = true
	close(b.whole)
}

// end says that the handler has returned. What is read from now on does not count.
func (b *observedBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// result returns the bytes, if they were kept, and why the body cannot be compared.
func (b *observedBody) result() ([]byte, Observed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.done {
		return nil, ObservedUnread
	}
	return b.kept, b.fault
}

// sum sets what is compared of a body whose bytes were not kept.
func (b *observedBody) sum(c *compared) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hash != nil && b.s.b.fingerprint.raw {
		b.hash.Sum(c.body[:0])
	}
}

// bytes returns how much memory the body holds.
func (b *observedBody) bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}
