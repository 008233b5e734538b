// Package faults makes the services of the examples misbehave, so that you can watch what follows.
package faults

import (
	"net/http"
	"sync/atomic"
)

// HangUpOnce returns h with one fault: it executes the first request and then closes the connection without an
// answer. The caller cannot know whether anything happened.
func HangUpOnce(h http.Handler) http.Handler {
	var hungUp atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hungUp.Swap(true) {
			h.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(lost{}, r)
		panic(http.ErrAbortHandler)
	})
}

// lost is a response writer that discards the answer.
type lost struct{}

func (lost) Header() http.Header         { return http.Header{} }
func (lost) WriteHeader(int)             {}
func (lost) Write(p []byte) (int, error) { return len(p), nil }
