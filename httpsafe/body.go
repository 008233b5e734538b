package httpsafe

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
)

// readBody reads the whole body of r into mem. It returns a problem if the body is too large or does not arrive.
func (c *config) readBody(r *http.Request, mem *memory, a *account) *Problem {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.ContentLength > c.MaxRequestBody {
		return c.bodyTooLarge()
	}
	var err error
	var pieces [][]byte // what follows mem.body, once that is full
	for size := int64(0); err == nil; {
		into, limit := &mem.body, pieceSize
		if len(mem.body) < contiguous {
			if p := a.grow(mem, 1, 0); p != nil {
				return p
			}
			limit = min(cap(mem.body), max(mem.counted, uncounted), contiguous)
		} else {
			if last := len(pieces) - 1; last < 0 || len(pieces[last]) == pieceSize {
				if p := a.take(pieceSize); p != nil {
					return p
				}
				pieces = append(pieces, make([]byte, 0, pieceSize))
			}
			into = &pieces[len(pieces)-1]
		}
		var n int
		n, err = r.Body.Read((*into)[len(*into):limit])
		*into = (*into)[:len(*into)+n]
		if size += int64(n); size > c.MaxRequestBody {
			return c.bodyTooLarge()
		}
	}
	if err != io.EOF {
		return unreadBody(err)
	}
	if len(pieces) > 0 {
		mem.body = slices.Concat(slices.Insert(pieces, 0, mem.body)...)
	}
	return nil
}

// A body doubles its memory up to contiguous, and then grows by pieces, which are put together when all of it has
// arrived. So a client that keeps it waiting makes it hold no more than pieceSize above what has arrived, in bytes;
// with doubling it would be as much again.
const (
	contiguous = 2 * pieceSize
	pieceSize  = 16 << 10
)

// unreadBody returns the problem for an error of reading a body.
func unreadBody(err error) *Problem {
	p := rejection(BodyUnreadable)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		p = rejection(BodyTooLarge).with("max_bytes", tooLarge.Limit)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		p = rejection(BodyTimeout)
	}
	return &p
}

// bodyTooLarge returns the problem for a body longer than Options.MaxRequestBody.
func (c *config) bodyTooLarge() *Problem {
	p := rejection(BodyTooLarge).with("max_bytes", c.MaxRequestBody)
	return &p
}

// requestBody gives the handler the body that was read in advance. It can be read until the handler has returned, by
// any goroutine, because transports may continue to read in the background. Afterwards the bytes belong to the next
// request.
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

// Len returns the number of bytes that are left. Package proxy asks for it, because they need not be waited for.
func (b *requestBody) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.rest)
}

// Close implements io.Closer.
func (b *requestBody) Close() error {
	b.end()
	return nil
}

// end takes the bytes back: from now on nothing refers to them.
func (b *requestBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest, b.closed = nil, true
}
