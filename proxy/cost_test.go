//go:build !race

// With the race detector sync.Pool drops objects at random, so allocations are counted without it.

package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// roundTrip is a transport without connections, whose own allocations are the same for each request.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A request with a fresh key takes a few allocations more than one without: for the record, the attempt, what is held
// back of the answer, and the copy of the body.
//
// Seen to fail with context.WithoutCancel instead of a Detached in httpsafe, and with options that authorizer.ask takes
// by value.
func TestAllocationsOfAKey(t *testing.T) {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{SweepEvery: -1})
	p, err := proxy.New(guard, httpsafe.ScopeNone(), proxy.Options{
		Upstream: proxy.Upstream{URL: mustURL("http://upstream.test")},
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			_, err := io.Copy(io.Discard, r.Body)
			return &http.Response{
				StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: 2,
				Body: io.NopCloser(strings.NewReader("{}")), Request: r,
			}, err
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	serve := func(keyed bool) func() {
		return func() {
			r := httptest.NewRequest("POST", "/charges", strings.NewReader(`{"amount":1000}`))
			keys++
			key := strconv.Itoa(1e6 + keys)
			if keyed {
				r.Header.Set("Idempotency-Key", key)
			} else {
				r.Header.Set("X-Other", key)
			}
			w := httptest.NewRecorder()
			if p.ServeHTTP(w, r); w.Code != 200 {
				t.Fatalf("status %d", w.Code)
			}
		}
	}
	without, with := testing.AllocsPerRun(500, serve(false)), testing.AllocsPerRun(500, serve(true))
	const most = 24
	if more := with - without; more > most {
		t.Errorf("%v allocations more than without a key (%v), want at most %v", more, without, most)
	}
}
