package wire

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// HeaderLine is one line of a header.
type HeaderLine struct{ Name, Value string }

// Request is what goes over the wire, frozen: sent twice it is the same bytes twice. Methods return changed copies.
type Request struct {
	Method string
	Path   string       // as in the request line, with the query
	Header []HeaderLine // without Host and what frames the body
	Body   []byte
	// Chunked sends the body in chunks, without Content-Length.
	Chunked bool
	// Close asks for the end of the connection after the answer. That is so for all requests but a few.
	Close bool
	// Unread says that the answer will not be read: the connection has room for little of it.
	Unread bool
	// Host is that of the Host line. Default: the target's.
	Host string
}

// With returns the request with one more header line.
func (r Request) With(name, value string) Request {
	r.Header = append(slices.Clone(r.Header), HeaderLine{name, value})
	return r
}

// Without returns the request without header lines of that name.
func (r Request) Without(name string) Request {
	r.Header = slices.DeleteFunc(slices.Clone(r.Header), func(h HeaderLine) bool {
		return textproto.CanonicalMIMEHeaderKey(h.Name) == textproto.CanonicalMIMEHeaderKey(name)
	})
	return r
}

// Set returns the request with exactly one header line of that name.
func (r Request) Set(name, value string) Request { return r.Without(name).With(name, value) }

// As returns the request with a caller's credential. It replaces other lines of the same names.
func (r Request) As(credential []HeaderLine) Request {
	for _, h := range credential {
		r = r.Without(h.Name)
	}
	for _, h := range credential {
		r = r.With(h.Name, h.Value)
	}
	return r
}

// WithBody returns the request with another body.
func (r Request) WithBody(body []byte) Request {
	r.Body = body
	return r
}

// WithMethod returns the request with another method.
func (r Request) WithMethod(method string) Request {
	r.Method = method
	return r
}

// WithPath returns the request with another path.
func (r Request) WithPath(path string) Request {
	r.Path = path
	return r
}

// At returns the request to another host. It goes over the same connection.
func (r Request) At(host string) Request {
	r.Host = host
	return r
}

// InChunks returns the request with its body in chunks.
func (r Request) InChunks() Request {
	r.Chunked = true
	return r
}

// Get returns the first header line of that name.
func (r Request) Get(name string) string {
	for _, h := range r.Header {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// Head returns the bytes of the request before the body.
func (r Request) Head(host string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.Path, cmp.Or(r.Host, host))
	for _, h := range r.Header {
		fmt.Fprintf(&b, "%s: %s\r\n", h.Name, h.Value)
	}
	switch {
	case r.Chunked:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	case len(r.Body) > 0 || r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodDelete:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.Body))
	}
	if r.Close {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// Framed returns the body as it is sent: as it is, or in chunks.
func (r Request) Framed() []byte {
	if !r.Chunked {
		return r.Body
	}
	var b bytes.Buffer
	for part := range slices.Chunk(r.Body, max(1, len(r.Body)/2)) {
		b.WriteString(strconv.FormatInt(int64(len(part)), 16) + "\r\n")
		b.Write(part)
		b.WriteString("\r\n")
	}
	b.WriteString("0\r\n\r\n")
	return b.Bytes()
}
