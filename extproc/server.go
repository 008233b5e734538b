package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"
)

// Options of a Server.
type Options struct {
	// MaxMessage is the largest message that is read from Envoy, in bytes: the body of a request or of an answer, and a
	// few more. A larger one ends its request with an error. Default 4 MiB.
	MaxMessage int
	// MaxAnswer is the largest body that the handler may answer with, in bytes. A larger one is an error for the client.
	// Default 32 MiB.
	MaxAnswer int
	// MoreTime is what Envoy is asked for if an answer takes longer than AskAfter. max_message_timeout of Envoy's filter
	// must be at least as long. Default 60 s.
	MoreTime time.Duration
	// AskAfter must be shorter than message_timeout of Envoy's filter. Default 100 ms, half of Envoy's default.
	AskAfter time.Duration
	// ErrorLog gets messages about a filter that is configured so that requests are not protected, about calls that do not
	// follow the protocol, and the value and the stack of a handler's panic. Default: they are discarded.
	ErrorLog *log.Logger
}

func (o Options) withDefaults() Options {
	if o.MaxMessage <= 0 {
		o.MaxMessage = 4 << 20
	}
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = 32 << 20
	}
	if o.MoreTime <= 0 {
		o.MoreTime = time.Minute
	}
	if o.AskAfter <= 0 {
		o.AskAfter = 100 * time.Millisecond
	}
	if o.ErrorLog == nil {
		o.ErrorLog = log.New(io.Discard, "", 0)
	}
	return o
}

// Server is an http.Handler for the calls of Envoy's ext_proc filter, which are gRPC. Its http.Server needs HTTP/2:
// with TLS, or with http.Protocols.SetUnencryptedHTTP2. It is safe for concurrent use.
type Server struct {
	handler http.Handler
	options Options
}

// New returns a Server that asks h what becomes of requests.
func New(h http.Handler, o Options) *Server { return &Server{h, o.withDefaults()} }

// ServeHTTP implements http.Handler: it serves one call, which is about one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := newCall(w, r, s.options.MaxMessage)
	if c == nil {
		return
	}
	err := error(&callError{codeUnimplemented, "extproc: no method " + r.URL.Path})
	if r.URL.Path == processMethod {
		err = s.process(r.Context(), c)
	}
	if err != nil && !errors.Is(err, errLeft) {
		s.options.ErrorLog.Print(err)
	}
	c.end(err)
}

// process serves a call. If it returns nil before Envoy has an answer to each of its messages, Envoy lets the request
// pass, so that it does so only when nothing is left to be answered, or when Envoy has gone.
func (s *Server) process(ctx context.Context, c *call) error {
	first, err := c.receive()
	if errors.Is(err, io.EOF) {
		return nil // no request
	}
	var m *message
	if err == nil {
		m, err = parse(first)
	}
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return err
	}
	x := newExchange(ctx, s.options, c, m)
	defer x.leave(nil)
	r, err := newRequest(m, &requestReader{x})
	if errors.Is(err, errTarget) {
		const text = "The request target cannot be parsed.\n"
		return c.send(appendImmediate(nil, http.StatusBadRequest, mutation{}, []byte(text)))
	} else if err != nil {
		return err
	}
	x.await(requestHeaders)
	go x.read()
	return x.serve(s.handler, r)
}

// check refuses a filter whose configuration would let requests pass unprotected, as far as the first message tells.
func (m *message) check() error {
	p := m.protocol
	text := ""
	switch {
	case m.observes:
		text = "observability_mode is on, so that Envoy would not wait for answers: leave it out"
	case m.kind != requestHeaders:
		text = "the first message is not a request's header: write request_header_mode: SEND"
	case p != nil && p.unasked:
		text = "send_body_without_waiting_for_header_response is on: leave it out"
	case p != nil && p.requestBody != bodyBuffered:
		text = "processing_mode has no request_body_mode: BUFFERED, without which a request could be sent to the service " +
			"before its body was seen here: write it"
	case p != nil && p.responseBody != bodyBuffered && p.responseBody != bodyPartial:
		text = "processing_mode has no response_body_mode: BUFFERED_PARTIAL, without which answers could not be " +
			"stored: write it"
	default:
		return nil
	}
	return &callError{codeFailedPrecondition, fmt.Sprintf("extproc: Envoy's ext_proc filter: %s (docs/envoy.md)", text)}
}
