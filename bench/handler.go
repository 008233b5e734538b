package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/peers"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// handler repeatedly calls an http.Handler with the same request and different keys.
type handler struct {
	handler http.Handler
	work    *httpWork
	request *http.Request
	body    rewinder
	answer  sink
	key     []string
}

// newHandlers returns a handler with httpsafe's middleware with default options, and one without. The scope comes from
// the authenticated caller, which costs nothing here.
func newHandlers() (guarded, bare *handler) {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{SweepEvery: -1})
	scope := func(*http.Request) (string, error) { return "tenant-17", nil }
	return newHandler(httpsafe.Middleware(guard, scope, httpsafe.Options{})),
		newHandler(func(work http.Handler) http.Handler { return work })
}

func newHandler(middleware func(http.Handler) http.Handler) *handler {
	work := new(httpWork)
	s := &handler{handler: middleware(work), work: work, key: []string{""}, answer: sink{header: http.Header{}}}
	s.request, _ = http.NewRequest(http.MethodPost, "/payments", nil)
	s.request.Pattern = "POST /payments"
	s.request.Header.Set("Content-Type", "application/json")
	s.request.ContentLength = int64(len(peers.RequestBody))
	return s
}

// Ran implements subject.
func (s *handler) Ran() int { return s.work.ran }

// Serve implements subject.
func (s *handler) Serve(key string) error {
	s.body.rest = peers.RequestBody
	s.request.Body = &s.body
	delete(s.request.Header, "Idempotency-Key")
	if key != "" {
		s.key[0] = key
		s.request.Header["Idempotency-Key"] = s.key
	}
	clear(s.answer.header)
	s.answer.status, s.answer.bytes = 0, 0
	s.handler.ServeHTTP(&s.answer, s.request)
	if s.answer.status != http.StatusCreated || s.answer.bytes != len(peers.AnswerBody) {
		return fmt.Errorf("answer %d with %d bytes", s.answer.status, s.answer.bytes)
	}
	return nil
}

// httpWork reads the request and answers.
type httpWork struct {
	ran int
	buf [512]byte
}

func (h *httpWork) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for {
		if _, err := r.Body.Read(h.buf[:]); err != nil {
			break
		}
	}
	h.ran++
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", peers.Location)
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, peers.AnswerBody)
}

// rewinder is a request body that can be read again.
type rewinder struct{ rest string }

func (b *rewinder) Read(p []byte) (int, error) {
	if b.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *rewinder) Close() error { return nil }

// sink is a ResponseWriter that only counts.
type sink struct {
	header        http.Header
	status, bytes int
}

func (s *sink) Header() http.Header { return s.header }

func (s *sink) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
}

func (s *sink) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	s.bytes += len(p)
	return len(p), nil
}

// WriteString keeps the bare handler from paying for a copy.
func (s *sink) WriteString(p string) (int, error) {
	s.WriteHeader(http.StatusOK)
	s.bytes += len(p)
	return len(p), nil
}
