package httpsafe

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/caller"
)

// Observation counts, for each route, what a [Middleware] would have done with the requests that [Observe] sees. Its
// records are in the Guard's store, in scopes of their own, so that several processes count a retry which reaches another
// one of them. It is safe for concurrent use.
type Observation struct {
	*observation                  // shared by all that With makes
	of           *retrysafe.Guard // whose policy would be in force
	guard        *retrysafe.Guard // claims, compares and completes beside the requests
}

// observation is what the Observations of one NewObservation share.
type observation struct {
	options  ObservationOptions
	inFlight atomic.Int64
	bytes    atomic.Int64
	retryAt  atomic.Int64 // when the store may be asked again, in nanoseconds since 1970; 0: it works

	mu     sync.Mutex
	routes map[string]*routeCounts
}

// routeCounts are the counts of one route.
type routeCounts struct {
	observed [observedEnd]atomic.Int64
	reused   atomic.Int64
}

// ObservationOptions bound what observing may take. The zero value works.
type ObservationOptions struct {
	// MaxInFlight is how many requests are observed at once. Further ones are served and counted as [ObservedBusy].
	// Default 1024.
	MaxInFlight int
	// MaxMemory bounds the copies of bodies and headers that all observed requests hold together, in bytes. Requests beyond
	// it are served and counted as [ObservedBusy]. Bodies are copied only where more than their bytes are compared or where
	// they hold the key. Default 64 MiB.
	MaxMemory int64
	// StoreTimeout bounds each call to the store. A request makes two or three, and none of them delays it. Default 1 s.
	StoreTimeout time.Duration
	// Observer is told when a sweep has ended ([retrysafe.SweepEnded]), and nothing else. Observing sweeps the store once a
	// minute as a Guard does, because a program may have no other requests that would. Default: none.
	Observer retrysafe.Observer
}

const (
	// storePause is how long the store is left alone after it has failed.
	storePause = time.Second
	// maxRoutes bounds the routes that are counted separately. Requests of further ones count for the route "".
	maxRoutes = 1000

	// Scopes of observed keys begin with a percent sign that escapes nothing, which no scope of this package does.
	observedPrefix = "%observed/"
	reusedPrefix   = "%reused/"
)

// NewObservation returns an Observation that keeps its records in the store of g, for as long as the policy of g says. It
// uses the store and the policy of g, and nothing else: the observers of g are told nothing. Call Shutdown before you close
// the store. NewObservation panics if StoreTimeout is less than 1 ms and not zero, because its unit must be missing.
func NewObservation(g *retrysafe.Guard, o ObservationOptions) *Observation {
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 1024)
	o.MaxMemory = cmp.Or(o.MaxMemory, 64<<20)
	o.StoreTimeout = cmp.Or(o.StoreTimeout, time.Second)
	return &Observation{
		observation: &observation{options: o, routes: map[string]*routeCounts{}},
		of:          g,
		guard: retrysafe.New(patientlySwept(g.Store()), retrysafe.Options{
			Policy: observing(g.Policy()), StoreTimeout: o.StoreTimeout, Observer: sweepsOnly(o.Observer),
		}),
	}
}

// sweepTimeout bounds one pass of a sweep. It is longer than what observed requests may take of the store, as a Guard has it.
const sweepTimeout = 5 * time.Second

// sweptStore is a store whose sweeps have a timeout of their own.
type sweptStore struct {
	retrysafe.Store
	sweeper retrysafe.Sweeper
}

func patientlySwept(s retrysafe.Store) retrysafe.Store {
	if sweeper, ok := retrysafe.As[retrysafe.Sweeper](s); ok {
		return sweptStore{s, sweeper}
	}
	return s
}

// Sweep implements retrysafe.Sweeper.
func (s sweptStore) Sweep(ctx context.Context, limit int) (int, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), sweepTimeout)
	defer stop()
	return s.sweeper.Sweep(ctx, limit)
}

// sweepsOnly returns an observer that passes on the ends of sweeps; nil if there is nobody to tell.
func sweepsOnly(o retrysafe.Observer) retrysafe.Observer {
	if o == nil {
		return nil
	}
	return retrysafe.ObserverFunc(func(ctx context.Context, e retrysafe.Event) {
		if e.Kind == retrysafe.SweepEnded {
			o.Observe(ctx, e)
		}
	})
}

// With returns an Observation for routes with a policy of their own: see [retrysafe.Guard.With]. Both count together.
func (s *Observation) With(p retrysafe.Policy) *Observation {
	of := s.of.With(p)
	return &Observation{observation: s.observation, of: of, guard: s.guard.With(observing(of.Policy()))}
}

// observing returns the policy under which observed attempts are recorded: each request learns at once what there is.
func observing(p retrysafe.Policy) retrysafe.Policy {
	p.OnInFlight, p.OnAbandoned, p.OnStoreError = retrysafe.Reject(), retrysafe.Refuse(), retrysafe.FailClosed
	p.HoldUnsaved, p.Timeout, p.AsyncClaim = -1, -1, false
	return p
}

// Shutdown ends the observation: requests are still served, and counted as [ObservedStore]. It returns nil when what was
// observed is saved, or the error of ctx. What is not saved then is missing in the counts, and nothing else.
func (s *Observation) Shutdown(ctx context.Context) error { return s.guard.Shutdown(ctx) }

// IsObservedScope reports whether a scope in the store is that of an observed key. Such keys protect nothing: the handler
// ran for each of their requests. So no outcome of theirs needs to be found out.
func IsObservedScope(scope string) bool {
	return strings.HasPrefix(scope, observedPrefix) || strings.HasPrefix(scope, reusedPrefix)
}

// observedKey returns the key under which an observed request is recorded.
func observedKey(prefix string, k retrysafe.Key) retrysafe.Key {
	if len(prefix)+len(k.Scope) > retrysafe.MaxKeyBytes {
		k.Scope = caller.Digest(k.Scope)
	}
	k.Scope = prefix + k.Scope
	return k
}

// Observed says what a [Middleware] would have done with a request. Each request with a guarded method is one of these.
type Observed uint8

const (
	// ObservedNoKey: the request has no key, and would have passed unprotected.
	ObservedNoKey Observed = iota + 1
	// ObservedMissing: it has no key where one is required, and would have been refused.
	ObservedMissing
	// ObservedFirst: it is the first with its key, and would have run.
	ObservedFirst
	// ObservedFreed: it is the first, and its answer, such as 503 with Retry-After, would have freed the key for a retry.
	ObservedFreed
	// ObservedRetry: another request with the key had ended. This one would have got the stored answer; it ran again.
	ObservedRetry
	// ObservedConcurrent: another request with the key was running. This one would have waited or been refused; both ran at
	// the same time.
	ObservedConcurrent
	// ObservedMismatch: the key had been used for a different request, and this one would have been refused.
	ObservedMismatch
	// ObservedUnknown: how another request with the key ended is not known, because its process died or its handler
	// panicked. A [Middleware] would have done what Policy.OnAbandoned says.
	ObservedUnknown
	// ObservedRefused: it would have been refused for another reason: a malformed or old key, an unknown caller, a body
	// longer than Options.MaxRequestBody, TLS early data, a signature that is not valid.
	ObservedRefused
	// ObservedBusy: not observed, because as much was being observed as [ObservationOptions] allow.
	ObservedBusy
	// ObservedStore: not observed, because the store failed, was too slow or full.
	ObservedStore
	// ObservedUnread: not observed, because the handler has not read the body to its end.
	ObservedUnread
	// ObservedPanic: not observed, because a VerifyFunc, ScopeFunc, KeySource or FingerprintFunc panicked, or one of the
	// first three refused the request after the 10 s in which they may find out.
	ObservedPanic

	observedEnd
)

var observedNames = [...]string{
	"", "no_key", "key_missing", "first", "freed", "retry", "concurrent", "mismatch", "outcome_unknown", "refused",
	"unobserved_busy", "unobserved_store", "unobserved_body", "unobserved_panic",
}

// String returns the name in snake case, fit for a metric's label.
func (o Observed) String() string { return observedNames[o] }

// RouteCounts are the requests of one route with guarded methods.
type RouteCounts struct {
	// Route is Options.Route, or else the pattern that matched the request; "" if there is none.
	Route string
	// Observed counts the requests by what would have been done with them; all together are all that have ended.
	Observed map[Observed]int64
	// Reused is how many keys were used a second time. Keys that were used once are Observed[ObservedFirst] without these.
	// A key may be used first in one process and again in another, so only the sum over all processes says how many.
	Reused int64
}

// Requests returns how many requests have ended.
func (c RouteCounts) Requests() (n int64) {
	for _, of := range c.Observed {
		n += of
	}
	return n
}

// Counts returns what was counted so far, in the order of the routes.
func (s *Observation) Counts() []RouteCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []RouteCounts
	for route, counts := range s.routes {
		c := RouteCounts{Route: route, Observed: map[Observed]int64{}, Reused: counts.reused.Load()}
		for o := ObservedNoKey; o < observedEnd; o++ {
			if n := counts.observed[o].Load(); n > 0 {
				c.Observed[o] = n
			}
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b RouteCounts) int { return strings.Compare(a.Route, b.Route) })
	return all
}

// route returns the counts of a route.
func (s *observation) route(name string) *routeCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.routes[name] == nil && len(s.routes) >= maxRoutes {
		name = ""
	}
	counts := s.routes[name]
	if counts == nil {
		counts = &routeCounts{}
		s.routes[name] = counts
	}
	return counts
}

// enter reports whether one more request may be observed.
func (s *observation) enter() bool {
	if s.inFlight.Add(1) <= int64(s.options.MaxInFlight) {
		return true
	}
	s.inFlight.Add(-1)
	return false
}

// grow takes n bytes of memory, and reports whether there were enough.
func (s *observation) grow(n int64) bool {
	if s.bytes.Add(n) <= s.options.MaxMemory {
		return true
	}
	s.bytes.Add(-n)
	return false
}

// leave gives back the place of a request, and its memory.
func (s *observation) leave(bytes int64) {
	s.bytes.Add(-bytes)
	s.inFlight.Add(-1)
}

// mayAsk reports whether the store may be asked. After it has failed, one request in a while tries.
func (s *observation) mayAsk() bool {
	at := s.retryAt.Load()
	return at == 0 || time.Now().UnixNano() >= at && s.retryAt.CompareAndSwap(at, math.MaxInt64)
}

// heard notes whether the store works.
func (s *observation) heard(out retrysafe.Outcome, err error) {
	failed := errors.Is(err, retrysafe.ErrStoreFailed) || err == nil && !out.Stored
	switch {
	case failed:
		s.retryAt.Store(time.Now().Add(storePause).UnixNano())
	case s.retryAt.Load() != 0:
		s.retryAt.Store(0)
	}
}
