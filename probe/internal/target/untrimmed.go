package target

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http/httptest"
	"testing"
)

// StartUntrimmed serves an API that takes white space around a key for a part of it. Package net/http trims it, so
// that it is made visible before.
func StartUntrimmed(t testing.TB) (*API, *httptest.Server) {
	t.Helper()
	a := New(Untrimmed)
	s := httptest.NewUnstartedServer(a)
	s.Listener = untrimmed{s.Listener}
	s.Start()
	t.Cleanup(s.Close)
	return a, s
}

// untrimmed makes connections whose first request shows what is around its key.
type untrimmed struct{ net.Listener }

// Accept implements net.Listener.
func (l untrimmed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &shownSpaces{Conn: c, in: bufio.NewReader(c)}, nil
}

// shownSpaces puts the head of the first request, changed, before what else is read.
type shownSpaces struct {
	net.Conn
	in   *bufio.Reader
	head io.Reader // nil: not read yet
}

// Read returns the changed head of the first request, and then what follows it.
func (c *shownSpaces) Read(p []byte) (int, error) {
	if c.head == nil {
		c.head = io.MultiReader(bytes.NewReader(c.readHead()), c.in)
	}
	return c.head.Read(p)
}

// readHead reads lines up to the empty one.
func (c *shownSpaces) readHead() []byte {
	var head []byte
	for {
		line, err := c.in.ReadBytes('\n')
		if value, ok := bytes.CutPrefix(line, []byte("Idempotency-Key: ")); ok {
			line = append([]byte("Idempotency-Key: "), withUnderscores(bytes.TrimSuffix(value, []byte("\r\n")))...)
		}
		if head = append(head, line...); err != nil || len(line) <= len("\r\n") {
			return head
		}
	}
}

// withUnderscores returns a quoted value with underscores inside the quotes instead of the white space outside.
func withUnderscores(value []byte) []byte {
	key := bytes.Trim(value, " \t")
	around := bytes.Repeat([]byte("_"), len(value)-len(key))
	if inner, ok := bytes.CutSuffix(key, []byte(`"`)); ok {
		return append(append(append(inner[:len(inner):len(inner)], around...), '"'), "\r\n"...)
	}
	return append(append(key[:len(key):len(key)], around...), "\r\n"...)
}
