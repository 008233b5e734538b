package httpsafe_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// kit is a guarded handler with everything around it.
type kit struct {
	*testing.T
	store   *faultyStore
	clock   atomic.Int64 // the store's, in nanoseconds
	policy  retrysafe.Policy
	options httpsafe.Options
	scope   httpsafe.ScopeFunc
	handler http.HandlerFunc
	ran     atomic.Int64
	// discarded counts answers that observers were told are lost.
	discarded atomic.Int64
	guarded   http.Handler
	once      sync.Once
	guard     *retrysafe.Guard
}

// faultyStore fails on demand.
type faultyStore struct {
	*memstore.Store
	mu                    sync.Mutex
	claimErr, completeErr error
	completions, releases atomic.Int64
	beforeComplete        func()
	beforeClaim           func()
}

func (s *faultyStore) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	if err, _ := s.faults(); err != nil {
		return nil, err
	}
	return s.Store.Inspect(ctx, d)
}

var errDown = errors.New("store is down")

func (s *faultyStore) fail(claim, complete error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimErr, s.completeErr = claim, complete
}

func (s *faultyStore) faults() (claim, complete error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claimErr, s.completeErr
}

func (s *faultyStore) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if err, _ := s.faults(); err != nil {
		return retrysafe.Claim{}, err
	}
	if s.beforeClaim != nil {
		s.beforeClaim()
	}
	return s.Store.Claim(ctx, p)
}

func (s *faultyStore) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result,
	keep retrysafe.Retention,
) error {
	if _, err := s.faults(); err != nil {
		return err
	}
	if s.beforeComplete != nil {
		s.beforeComplete()
	}
	s.completions.Add(1)
	return s.Store.Complete(ctx, l, r, keep)
}

func (s *faultyStore) Release(ctx context.Context, l retrysafe.Lease) error {
	s.releases.Add(1)
	return s.Store.Release(ctx, l)
}

func newKit(t *testing.T) *kit {
	k := &kit{T: t, scope: httpsafe.ScopeHeader("Caller"), options: httpsafe.Options{Profile: httpsafe.IETF()}}
	k.store = &faultyStore{Store: memstore.New(memstore.Options{Clock: func() time.Duration { return time.Duration(k.clock.Load()) }})}
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/payments/1")
		w.WriteHeader(http.StatusCreated)
		w.Write(append([]byte(`{"paid":`), append(body, '}')...))
	}
	return k
}

// serve answers one request through the middleware.
func (k *kit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.once.Do(k.build)
	k.guarded.ServeHTTP(w, r)
}

func (k *kit) build() {
	k.guard = retrysafe.New(k.store, retrysafe.Options{
		Policy: k.policy, SweepEvery: -1,
		Observer: retrysafe.ObserverFunc(func(_ context.Context, e retrysafe.Event) {
			if e.Kind == retrysafe.AnswerDiscarded {
				k.discarded.Add(1)
			}
		}),
	})
	k.guarded = httpsafe.Middleware(k.guard, k.scope,
		k.options)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.ran.Add(1)
		k.handler(w, r)
	}))
}

// request makes a POST with a key; change changes it.
func request(key string, change ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("17"))
	r.Header.Set("Caller", "alice")
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for _, f := range change {
		f(r)
	}
	return r
}

func header(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func method(m string) func(*http.Request) { return func(r *http.Request) { r.Method = m } }

func body(text string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}
}

func target(path string) func(*http.Request) {
	return func(r *http.Request) { r.URL = httptest.NewRequest(http.MethodGet, path, nil).URL }
}

// post sends a request and returns the answer.
func (k *kit) post(key string, change ...func(*http.Request)) *answer {
	k.Helper()
	return k.send(request(key, change...))
}

func (k *kit) send(r *http.Request) *answer {
	k.Helper()
	w := httptest.NewRecorder()
	k.ServeHTTP(w, r)
	return &answer{k, w.Result(), w.Body.String()}
}

func (k *kit) pass(d time.Duration) { k.clock.Add(int64(d)) }

// wantRuns checks how often the handler has run.
func (k *kit) wantRuns(want int64) {
	k.Helper()
	if got := k.ran.Load(); got != want {
		k.Errorf("the handler ran %d times, want %d", got, want)
	}
}

func reconcileWith(result retrysafe.Result) retrysafe.ReconcileFunc {
	return func(context.Context, *retrysafe.Attempt, retrysafe.Record) (*retrysafe.Result, error) {
		return &result, nil
	}
}

func timeoutOf(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), time.Hour)
}

// during runs f while the first request with key k is in flight, and returns the first request's answer.
func (k *kit) during(f func()) *answer {
	k.Helper()
	return k.while(request("k"), f)
}

// while runs f while a request is in flight, and returns its answer.
func (k *kit) while(first *http.Request, f func()) *answer {
	k.Helper()
	began, goOn, answered := make(chan struct{}), make(chan struct{}), make(chan *answer)
	inner := k.handler
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Held") != "" {
			close(began)
			<-goOn
		}
		inner(w, r)
	}
	first.Header.Set("Held", "yes")
	go func() { answered <- k.send(first) }()
	<-began
	f()
	close(goOn)
	return <-answered
}
