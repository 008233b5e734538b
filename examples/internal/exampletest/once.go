// Package exampletest checks the guarantees that every HTTP example gives.
package exampletest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Request is a POST to a guarded route of an example.
type Request struct {
	Path   string
	Header http.Header
	// Body is sent under the key. Other is a different request for the same route.
	Body, Other string
}

// Payment is a request for a payment by the caller that a header names.
func Payment(header, caller string) Request {
	return Request{
		Path:   "/payments",
		Header: http.Header{header: {caller}},
		Body:   `{"amount":4200}`,
		Other:  `{"amount":1}`,
	}
}

// NewGuard returns a guard with an empty store in memory.
func NewGuard() *retrysafe.Guard {
	return retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
}

// Answer is the received response.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Replayed reports whether the answer is marked as a replay.
func (a Answer) Replayed() bool { return a.Header.Get("Idempotent-Replayed") == "true" }

// Duplicates is the number of concurrent requests with one key.
const Duplicates = 12

// API is an example that is being served, and the request that the test sends to it.
type API struct {
	t   *testing.T
	url string
	Request
}

// Serve serves h until the test ends.
func Serve(t *testing.T, h http.Handler, q Request) API {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return At(t, server.URL, q)
}

// At returns an API that is already served at a URL.
func At(t *testing.T, url string, q Request) API { return API{t, url, q} }

// Once checks three things: of concurrent duplicates one runs, as counted by runs; a replay equals the first answer
// byte for byte; and another body under the same key is refused with 422.
func (a API) Once(runs func() int64) {
	t := a.t
	t.Helper()
	before := runs()
	var first *Answer
	for _, got := range a.concurrently() {
		switch {
		case got.Status == http.StatusConflict && strings.Contains(string(got.Body), "request-in-flight"):
		case got.Status != http.StatusCreated:
			t.Fatalf("a duplicate got %d %s, want 201 or 409 in flight", got.Status, got.Body)
		case first == nil:
			first = &got
		default:
			wantSame(t, got, *first)
		}
	}
	if first == nil {
		t.Fatal("every duplicate got 409 in flight")
	}
	replay := a.Post("once", a.Body)
	wantSame(t, replay, *first)
	if !replay.Replayed() {
		t.Errorf("the retry is not marked as a replay: %v", replay.Header)
	}
	if got := a.Post("once", a.Other); got.Status != http.StatusUnprocessableEntity {
		t.Errorf("another body under the same key got %d %s, want 422", got.Status, got.Body)
	}
	if n := runs() - before; n != 1 {
		t.Errorf("the work ran %d times, want once", n)
	}
}

// concurrently sends duplicates at the same time.
func (a API) concurrently() []Answer {
	answers := make([]Answer, Duplicates)
	start, done := make(chan struct{}), sync.WaitGroup{}
	for i := range answers {
		done.Go(func() {
			<-start
			answers[i] = a.Post("once", a.Body)
		})
	}
	close(start)
	done.Wait()
	return answers
}

// Post sends body under a key.
func (a API) Post(key, body string) Answer {
	a.t.Helper()
	got, err := a.post(key, body)
	if err != nil {
		a.t.Errorf("POST %s: %v", a.Path, err)
	}
	return got
}

func (a API) post(key, body string) (Answer, error) {
	r, err := http.NewRequest(http.MethodPost, a.url+a.Path, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	for name, values := range a.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", fmt.Sprintf("%q", key))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return Answer{response.StatusCode, response.Header, text}, err
}

func wantSame(t *testing.T, got, want Answer) {
	t.Helper()
	if got.Status != want.Status || !bytes.Equal(got.Body, want.Body) {
		t.Errorf("got %d %q, want %d %q", got.Status, got.Body, want.Status, want.Body)
	}
	for _, name := range []string{"Content-Type", "Location"} {
		if g, w := got.Header.Get(name), want.Header.Get(name); g != w {
			t.Errorf("%s: got %q, want %q", name, g, w)
		}
	}
}
