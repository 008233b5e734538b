package httpsafe

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
)

// memory holds a request's or a response's bytes. Memories are pooled: whoever hands one out also takes it back.
type memory struct {
	body   []byte
	meta   []byte
	fields []field
}

// maxPooled is the most that a memory keeps for its next user.
const maxPooled = 64 << 10

func (m *middleware) getMemory() *memory { return m.memories.Get().(*memory) }

func (m *middleware) putMemory(mem *memory) {
	if mem == nil || cap(mem.body) > maxPooled || cap(mem.meta) > maxPooled {
		return
	}
	clear(mem.fields)
	mem.body, mem.meta, mem.fields = mem.body[:0], mem.meta[:0], mem.fields[:0]
	m.memories.Put(mem)
}

// readBody reads the whole body of r into mem. The problem is nil if that worked.
func (c *config) readBody(r *http.Request, mem *memory) *Problem {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.ContentLength > c.maxBody {
		return c.bodyTooLarge()
	}
	if r.ContentLength > 0 {
		mem.body = slices.Grow(mem.body, int(r.ContentLength)+1) // one more, to see the end
	}
	var err error
	for err == nil {
		if len(mem.body) == cap(mem.body) {
			mem.body = slices.Grow(mem.body, 512)
		}
		var n int
		n, err = r.Body.Read(mem.body[len(mem.body):cap(mem.body)])
		mem.body = mem.body[:len(mem.body)+n]
		if int64(len(mem.body)) > c.maxBody {
			return c.bodyTooLarge()
		}
	}
	if err == io.EOF {
		return nil
	}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		p := problem(BodyTooLarge).with("max_bytes", tooLarge.Limit)
		return &p
	}
	p := problem(BodyUnreadable)
	return &p
}

func (c *config) bodyTooLarge() *Problem {
	p := problem(BodyTooLarge).with("max_bytes", c.maxBody)
	return &p
}

// requestBody gives the handler the body that was read in advance. It may be read until the handler has returned, by
// any goroutine: transports go on reading in the background.
type requestBody struct {
	mu     sync.Mutex
	rest   []byte
	closed bool
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case len(b.rest) == 0:
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *requestBody) Close() error {
	b.end()
	return nil
}

// end takes the bytes back: nothing refers to them any more.
func (b *requestBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest, b.closed = nil, true
}
