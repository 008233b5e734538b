package extproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// A gRPC call as net/http has it (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md): messages with a
// prefix of five bytes, and a status in the trailers.

// processMethod is the path of the one method that is served.
const processMethod = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"

// The codes of gRPC that a Server ends calls with.
const (
	codeOK                 = 0
	codeResourceExhausted  = 8
	codeFailedPrecondition = 9
	codeUnimplemented      = 12
	codeInternal           = 13
)

// callError ends a call with a code other than codeInternal.
type callError struct {
	code int
	text string
}

// Error returns the text.
func (e *callError) Error() string { return e.text }

// call is one gRPC call. Only send may be called by several goroutines.
type call struct {
	w      http.ResponseWriter
	body   io.Reader
	limit  int // of a message, in bytes
	prefix [5]byte
	mu     sync.Mutex
}

// newCall begins a call; nil if the request is none, and was answered.
func newCall(w http.ResponseWriter, r *http.Request, limit int) *call {
	isGRPC := strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
	if r.ProtoMajor < 2 || r.Method != http.MethodPost || !isGRPC {
		http.Error(w, "This address speaks the protocol of Envoy's ext_proc filter: gRPC over HTTP/2.",
			http.StatusUnsupportedMediaType)
		return nil
	}
	w.Header()["Content-Type"] = []string{"application/grpc"}
	return &call{w: w, body: r.Body, limit: limit}
}

// receive returns the next message; io.EOF after the last.
func (c *call) receive() ([]byte, error) {
	if _, err := io.ReadFull(c.body, c.prefix[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(c.prefix[1:])
	switch {
	case c.prefix[0] != 0:
		return nil, &callError{codeUnimplemented, "extproc: messages must not be compressed"}
	case uint64(size) > uint64(c.limit):
		return nil, &callError{codeResourceExhausted, fmt.Sprintf("extproc: a message of Envoy has %d bytes, and at most %d "+
			"are read (Options.MaxMessage): lower per_connection_buffer_limit_bytes of Envoy's listener", size, c.limit)}
	}
	m := make([]byte, size)
	_, err := io.ReadFull(c.body, m)
	return m, err
}

// send sends a message.
func (c *call) send(m []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := binary.BigEndian.AppendUint32(make([]byte, 1, len(m)+5), uint32(len(m)))
	if _, err := c.w.Write(append(b, m...)); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}

// end sends the status. If the error is nil, Envoy goes on without asking any more.
func (c *call) end(err error) {
	code, text := codeOK, ""
	if known := new(callError); errors.As(err, &known) {
		code, text = known.code, known.text
	} else if err != nil {
		code, text = codeInternal, err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w.Header()[http.TrailerPrefix+"Grpc-Status"] = []string{fmt.Sprint(code)}
	if text != "" {
		c.w.Header()[http.TrailerPrefix+"Grpc-Message"] = []string{escape(text)}
	}
}

// escape writes a text as the field grpc-message has it.
func escape(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
