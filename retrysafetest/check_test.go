package retrysafetest_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/retrysafetest"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// shop is what handlers under test work on.
type shop struct {
	store  *retrysafetest.Store
	guard  *retrysafe.Guard
	orders atomic.Int64 // rows of a table
	bank   bank
	known  sync.Map
}

// bank stands for another system, which knows keys.
type bank struct {
	mu      sync.Mutex
	charges map[string]int
}

// charge has an effect once for each key.
func (b *bank) charge(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.charges == nil {
		b.charges = map[string]int{}
	}
	b.charges[key] = 1
}

func (s *shop) effects() int {
	s.bank.mu.Lock()
	defer s.bank.mu.Unlock()
	return int(s.orders.Load()) + len(s.bank.charges)
}

func (s *shop) insert(ctx context.Context) { s.store.Apply(ctx, func() { s.orders.Add(1) }) }

func created(w http.ResponseWriter) {
	w.Header().Set("Location", "/orders/1")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintln(w, `{"order":1}`)
}

// inTx is the right way.
func (s *shop) inTx(w http.ResponseWriter, r *http.Request) {
	err := s.store.InTx(r.Context(), func(ctx context.Context) error {
		s.insert(ctx)
		created(w)
		return nil
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// plain has its effect outside of any transaction.
func (s *shop) plain(w http.ResponseWriter, r *http.Request) {
	s.insert(r.Context())
	created(w)
}

// wrongContext has its effect while a transaction runs, but not in it.
func (s *shop) wrongContext(w http.ResponseWriter, r *http.Request) {
	_ = s.store.InTx(r.Context(), func(context.Context) error {
		s.insert(r.Context())
		created(w)
		return nil
	})
}

// step asks another system, under the child key or under another one.
func (s *shop) step(key func(child string) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, err := retrysafe.Step(r.Context(), "charge", func(_ context.Context, child string) (bool, error) {
			s.bank.charge(key(child))
			return true, nil
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		created(w)
	}
}

// looksFirst asks whether the effect was had, does something else, and then has it.
func (s *shop) looksFirst(w http.ResponseWriter, r *http.Request) {
	a, _ := retrysafe.AttemptFrom(r.Context())
	_, had := s.known.Load(a.Key())
	_, _ = retrysafe.Step(r.Context(), "log", func(context.Context, string) (bool, error) { return true, nil })
	if !had {
		s.orders.Add(1)
		s.known.Store(a.Key(), true)
	}
	created(w)
}

// setup of a subject: what a test changes.
type setup struct {
	policy   retrysafe.Policy
	options  httpsafe.Options
	scope    httpsafe.ScopeFunc
	handler  func(s *shop) http.HandlerFunc
	outside  func(s *shop, next http.Handler) http.Handler
	store    retrysafe.Store
	optional bool
	request  func(key string) *http.Request
	effects  func() int
}

func request(key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{"amount":4200}`))
	r.Header.Set("Authorization", "Bearer alice")
	r.Header.Set("Idempotency-Key", key)
	return r
}

func subject(change func(c *setup)) retrysafetest.Subject {
	s := &shop{store: retrysafetest.NewStore()}
	c := setup{
		options: httpsafe.Options{Required: true}, scope: httpsafe.ScopeCredential(), request: request, effects: s.effects,
		handler: func(s *shop) http.HandlerFunc { return s.inTx }, store: s.store,
		outside: func(_ *shop, next http.Handler) http.Handler { return next },
	}
	change(&c)
	s.guard = retrysafe.New(c.store, retrysafe.Options{Policy: c.policy})
	guarded := httpsafe.Middleware(s.guard, c.scope, c.options)(c.handler(s))
	return retrysafetest.Subject{
		Guard: s.guard, Handler: c.outside(s, guarded), NewRequest: c.request, Effects: c.effects, KeyOptional: c.optional,
	}
}

var rerun = retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}

// Handlers that are as they should be pass. Seen to fail with Goexit taken out of KillAt (the answer is saved), with
// Extend taken out of reach (rerun answers 409), and with settled left out of atOnce (reject).
func TestCheckPasses(t *testing.T) {
	same := func(child string) string { return child }
	for name, change := range map[string]func(c *setup){
		"InTx, refuse":   func(*setup) {},
		"InTx, rerun":    func(c *setup) { c.policy = rerun },
		"InTx, rerun tx": func(c *setup) { c.policy.OnAbandoned = retrysafe.RerunTx() },
		"plain, refuse": func(c *setup) {
			c.handler = func(s *shop) http.HandlerFunc { return s.plain }
		},
		"waits": func(c *setup) { c.policy = retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Minute)} },
		"step with a child key, rerun": func(c *setup) {
			c.policy = rerun
			c.handler = func(s *shop) http.HandlerFunc { return s.step(same) }
		},
		"reconcile": func(c *setup) {
			c.policy.OnAbandoned = retrysafe.Reconcile(func(context.Context, *retrysafe.Attempt,
				retrysafe.Record,
			) (*retrysafe.Result, error) {
				return nil, nil
			})
		},
		"another profile": func(c *setup) { c.options.Profile = httpsafe.Stripe() },
		"key optional": func(c *setup) {
			c.options.Required, c.optional = false, true
			c.handler = func(s *shop) http.HandlerFunc { return s.plain }
		},
		"a wrapped store": func(c *setup) { c.store = wrapped{c.store} },
	} {
		t.Run(name, func(t *testing.T) { retrysafetest.Check(t, subject(change)) })
	}
}

type wrapped struct{ retrysafe.Store }

func (w wrapped) Unwrap() retrysafe.Store { return w.Store }

// recorder is a test that notes how it fails.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Error(args ...any)         { r.failures = append(r.failures, fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, a ...any) { r.Error(fmt.Sprintf(f, a...)) }

// Each well-known mistake fails the test, once, and in words that lead to it. Seen to fail with each check taken out of
// Check, one after the other, and with each case of whyAgain.
func TestCheckFindsMistakes(t *testing.T) {
	var requests atomic.Int64
	for name, c := range map[string]struct {
		change func(c *setup)
		says   string
	}{
		"fields are missing": {func(c *setup) { c.effects = nil }, "needs Guard, Handler, NewRequest and Effects"},
		"another store":      {func(c *setup) { c.store = memstore.New(memstore.Options{}) }, "is a *memstore.Store"},
		"the request fails":  {func(c *setup) { c.scope = httpsafe.ScopeHeader("X-Tenant") }, "got 401"},
		"the request panics": {func(c *setup) { c.handler = func(*shop) http.HandlerFunc { return nil } }, "panicked"},
		"nothing is counted": {func(c *setup) { c.effects = func() int { return 0 } }, "has 0 effects, want 1"},
		"the key is not used": {
			func(c *setup) { c.request = func(string) *http.Request { return request("one") } },
			"has 0 effects, want 1",
		},
		"no middleware": {func(c *setup) {
			c.outside = func(s *shop, _ http.Handler) http.Handler { return http.HandlerFunc(s.plain) }
		}, "wrapped in httpsafe.Middleware"},
		"the wrong header": {func(c *setup) {
			c.options.Required, c.options.Profile = false, httpsafe.IETF().WithHeader("X-Key")
			c.handler = func(s *shop) http.HandlerFunc { return s.plain }
		}, "where the middleware looks for it"},
		"a scope for each request": {func(c *setup) {
			c.scope = func(*http.Request) (string, error) { return fmt.Sprint(requests.Add(1)), nil }
		}, "claimed under 2 scopes"},
		"a key for each request": {func(c *setup) {
			c.outside = func(_ *shop, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r.Header.Set("Idempotency-Key", fmt.Sprint(requests.Add(1)))
					next.ServeHTTP(w, r)
				})
			}
		}, "2 different keys were claimed"},
		"the effect is made outside of the middleware": {func(c *setup) {
			c.handler = func(*shop) http.HandlerFunc { return func(w http.ResponseWriter, _ *http.Request) { created(w) } }
			c.outside = func(s *shop, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					s.orders.Add(1)
					next.ServeHTTP(w, r)
				})
			}
		}, "outside of httpsafe.Middleware: move it inside"},
		"the key is freed": {func(c *setup) {
			c.handler = func(s *shop) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					httpsafe.Release(r.Context())
					s.plain(w, r)
				}
			}
		}, "must not follow an effect"},
		"a time in each answer": {func(c *setup) {
			c.outside = func(_ *shop, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					next.ServeHTTP(w, r)
					fmt.Fprintln(w, requests.Add(1))
				})
			}
		}, "a retry was answered differently"},
		"a location for each answer": {func(c *setup) {
			c.outside = func(_ *shop, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					recorded := httptest.NewRecorder()
					next.ServeHTTP(recorded, r)
					w.Header().Set("Location", fmt.Sprint("/orders/", requests.Add(1)))
					w.WriteHeader(recorded.Code)
					_, _ = recorded.Body.WriteTo(w)
				})
			}
		}, "Location"},
		"a cache in front that looks first and saves afterwards": {func(c *setup) {
			c.handler = func(*shop) http.HandlerFunc { return func(w http.ResponseWriter, _ *http.Request) { created(w) } }
			c.policy.OnInFlight = retrysafe.Wait(time.Minute)
			c.outside = func(s *shop, next http.Handler) http.Handler {
				var known sync.Map
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					key := r.Header.Get("Idempotency-Key")
					if _, ok := known.Load(key); !ok && key != "" {
						s.orders.Add(1)
					}
					next.ServeHTTP(w, r)
					known.Store(key, true)
				})
			}
		}, "10 requests at once with one key had 10 effects"},
		"those that wait are cut off": {func(c *setup) {
			c.policy.OnInFlight = retrysafe.Wait(time.Minute)
			c.outside = func(_ *shop, next http.Handler) http.Handler {
				var busy sync.Mutex
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ctx, stop := context.WithCancel(r.Context())
					defer stop()
					if busy.TryLock() {
						defer busy.Unlock()
					} else {
						stop()
					}
					next.ServeHTTP(w, r.WithContext(ctx))
				})
			}
		}, "at once with one key were answered differently"},
		"no key required": {func(c *setup) {
			c.options.Required = false
			c.handler = func(s *shop) http.HandlerFunc { return s.plain }
		}, "a request without a key got 201"},
		"the effect outside of a transaction, rerun": {func(c *setup) {
			c.policy = rerun
			c.handler = func(s *shop) http.HandlerFunc { return s.plain }
		}, "killed before Complete, and the request sent again: 2 effects"},
		"the effect with another context than the transaction's": {func(c *setup) {
			c.policy = rerun
			c.handler = func(s *shop) http.HandlerFunc { return s.wrongContext }
		}, "killed before the commit of InTx, and the request sent again: 2 effects"},
		"a step without its child key": {func(c *setup) {
			c.policy = rerun
			c.handler = func(s *shop) http.HandlerFunc {
				return s.step(func(string) string { return fmt.Sprint(requests.Add(1)) })
			}
		}, "killed before Checkpoint of the step charge, and the request sent again: 2 effects"},
		"a second attempt fails": {func(c *setup) {
			c.policy = rerun
			c.handler = func(s *shop) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					if a, _ := retrysafe.AttemptFrom(r.Context()); a.Number() > 1 {
						http.Error(w, "exists", http.StatusConflict)
						return
					}
					s.inTx(w, r)
				}
			}
		}, "Can the handler run again?"},
		"the answer is saved before the effect": {func(c *setup) {
			c.policy = rerun
			c.handler = func(s *shop) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					_ = s.store.InTx(r.Context(), func(context.Context) error { created(w); return nil })
					s.insert(context.Background())
				}
			}
		}, "the answer was saved without it"},
		"one request at a time": {func(c *setup) {
			c.outside = func(_ *shop, next http.Handler) http.Handler {
				one := make(chan bool, 1)
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					one <- true
					defer func() { <-one }()
					next.ServeHTTP(w, r)
				})
			}
		}, "holds a lock"},
		"looks first, then acts": {func(c *setup) {
			c.policy = rerun
			c.handler = func(s *shop) http.HandlerFunc { return s.looksFirst }
		}, "paused before Checkpoint of the step log until its lease was lost and a retry was answered, and then " +
			"continued: 2 effects"},
		"an answer of its own for an attempt that has lost its lease": {func(c *setup) {
			c.policy = retrysafe.Policy{OnAbandoned: retrysafe.Rerun(), OnInFlight: retrysafe.Wait(time.Minute)}
			c.outside = func(_ *shop, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					recorded := httptest.NewRecorder()
					next.ServeHTTP(recorded, r)
					if recorded.Code == http.StatusConflict { // only a lost lease can be the cause
						w.WriteHeader(http.StatusOK)
						return
					}
					maps.Copy(w.Header(), recorded.Header())
					w.WriteHeader(recorded.Code)
					_, _ = recorded.Body.WriteTo(w)
				})
			}
		}, "the answers differ"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			synctest.Test(t, func(*testing.T) { retrysafetest.Check(r, subject(c.change)) })
			if len(r.failures) != 1 || !strings.Contains(r.failures[0], c.says) {
				t.Errorf("got %q, want one failure that says %q", r.failures, c.says)
			}
		})
	}
}
