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
)

// Request is a POST to a guarded route of an example.
type Request struct {
	Path   string
	Header http.Header
	// Body is sent under the key. Other is a different request for the same route.
	Body, Other string
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

// Once serves h and checks three things: of concurrent duplicates one runs, as counted by runs; a replay equals the
// first answer byte for byte; and another body under the same key is refused with 422.
func Once(t *testing.T, h http.Handler, q Request, runs func() int64) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	before := runs()
	var first *Answer
	for _, a := range concurrently(t, server.URL, q) {
		switch {
		case a.Status == http.StatusConflict && strings.Contains(string(a.Body), "request-in-flight"):
		case a.Status != http.StatusCreated:
			t.Fatalf("a duplicate got %d %s, want 201 or 409 in flight", a.Status, a.Body)
		case first == nil:
			first = &a
		default:
			wantSame(t, a, *first)
		}
	}
	if first == nil {
		t.Fatal("every duplicate got 409 in flight")
	}
	replay := Post(t, server.URL, "once", q.Body, q)
	wantSame(t, replay, *first)
	if !replay.Replayed() {
		t.Errorf("the retry is not marked as a replay: %v", replay.Header)
	}
	if a := Post(t, server.URL, "once", q.Other, q); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("another body under the same key got %d %s, want 422", a.Status, a.Body)
	}
	if n := runs() - before; n != 1 {
		t.Errorf("the work ran %d times, want once", n)
	}
}

// concurrently sends duplicates at the same time.
func concurrently(t *testing.T, url string, q Request) []Answer {
	t.Helper()
	answers := make([]Answer, Duplicates)
	start, done := make(chan struct{}), sync.WaitGroup{}
	for i := range answers {
		done.Go(func() {
			<-start
			answers[i] = Post(t, url, "once", q.Body, q)
		})
	}
	close(start)
	done.Wait()
	return answers
}

// Post sends body to the server at url under a key.
func Post(t *testing.T, url, key, body string, q Request) Answer {
	t.Helper()
	a, err := post(url, key, body, q)
	if err != nil {
		t.Errorf("POST %s: %v", q.Path, err)
	}
	return a
}

func post(url, key, body string, q Request) (Answer, error) {
	r, err := http.NewRequest(http.MethodPost, url+q.Path, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	for name, values := range q.Header {
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
