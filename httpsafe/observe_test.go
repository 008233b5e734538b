package httpsafe_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// observedKit is a handler that is observed, over a store that fails on demand.
type observedKit struct {
	*testing.T
	store   *faultyStore
	guard   *retrysafe.Guard
	seen    *httpsafe.Observation
	handler http.Handler
}

// observe returns a kit whose handler reads the body, and answers with the status in the query.
func observe(t *testing.T, o httpsafe.Options, bounds httpsafe.ObservationOptions) *observedKit {
	k := &observedKit{T: t, store: &faultyStore{Store: memstore.New(memstore.Options{})}}
	k.guard = retrysafe.New(k.store, retrysafe.Options{SweepEvery: -1})
	k.seen = httpsafe.NewObservation(k.guard, bounds)
	k.handle(o, httpsafe.ScopeHeader("Caller"), answerAsAsked)
	return k
}

func (k *observedKit) handle(o httpsafe.Options, scope httpsafe.ScopeFunc, h http.HandlerFunc) {
	k.handler = httpsafe.Observe(k.seen, scope, o)(h)
}

func answerAsAsked(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	status := http.StatusOK
	fmt.Sscan(r.Header.Get("Answer"), &status)
	if r.Header.Get("Wait") != "" {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
}

// post sends a request, and waits until it is counted.
func (k *observedKit) post(key string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	k.Helper()
	before := k.requests()
	w := httptest.NewRecorder()
	k.handler.ServeHTTP(w, request(key, change...))
	eventually(k.T, func() bool { return k.requests() > before })
	return w
}

func (k *observedKit) requests() (n int64) {
	for _, c := range k.seen.Counts() {
		n += c.Requests()
	}
	return n
}

// counts returns the counts of all routes together.
func (k *observedKit) counts() (all map[httpsafe.Observed]int64, reused int64) {
	all = map[httpsafe.Observed]int64{}
	for _, c := range k.seen.Counts() {
		for o, n := range c.Observed {
			all[o] += n
		}
		reused += c.Reused
	}
	return all, reused
}

func (k *observedKit) want(reused int64, want map[httpsafe.Observed]int64) {
	k.Helper()
	if got, again := k.counts(); !maps.Equal(got, want) || again != reused {
		k.Errorf("counted %v, %d reused; want %v, %d", got, again, want, reused)
	}
}

type counted = map[httpsafe.Observed]int64

// TestObserveCounts has a request for each thing that a Middleware would do, and one count for each.
//
// Seen to fail with s.err taken out of work, with RejectUnsupported taken out of withoutKey, with isTooOld taken out of work,
// with decide taken out of observedRequest (it did nothing), and with compare taken out of look.
func TestObserveCounts(t *testing.T) {
	old := "01890a5d-ac96-774b-bcce-b302099a8057" // a UUIDv7 of 2023
	strict := httpsafe.IETF()
	strict.RejectUnsupported = true
	for _, c := range []struct {
		name    string
		options httpsafe.Options
		send    func(k *observedKit)
		reused  int64
		want    counted
	}{
		{"no key", httpsafe.Options{}, func(k *observedKit) { k.post("") }, 0, counted{httpsafe.ObservedNoKey: 1}},
		{
			"no key where one is required",
			httpsafe.Options{Required: true},
			func(k *observedKit) { k.post(""); k.post("", method("PUT")) }, 0,
			counted{httpsafe.ObservedMissing: 2},
		},
		{"used once", httpsafe.Options{}, func(k *observedKit) { k.post("a"); k.post("b") }, 0, counted{httpsafe.ObservedFirst: 2}},
		{
			"retries, also by another caller's key",
			httpsafe.Options{},
			func(k *observedKit) { k.post("a"); k.post("a"); k.post("a"); k.post("a", header("Caller", "bob")) },
			1,
			counted{httpsafe.ObservedFirst: 2, httpsafe.ObservedRetry: 2},
		},
		{
			"mismatches",
			httpsafe.Options{},
			func(k *observedKit) { k.post("a"); k.post("a", body("18")); k.post("a", target("/refunds")) },
			1,
			counted{httpsafe.ObservedFirst: 1, httpsafe.ObservedMismatch: 2},
		},
		{
			"JSON is compared as JSON",
			httpsafe.Options{Fingerprint: httpsafe.FingerprintJSON()},
			func(k *observedKit) {
				k.post("a", body(`{"a":1,"b":2}`))
				k.post("a", body(`{"b": 2, "a": 1}`))
				k.post("a", body(`{"b": 3, "a": 1}`))
			},
			1,
			counted{httpsafe.ObservedFirst: 1, httpsafe.ObservedRetry: 1, httpsafe.ObservedMismatch: 1},
		},
		{
			"answers that free the key",
			httpsafe.Options{},
			func(k *observedKit) {
				k.post("a", header("Answer", "503"), header("Wait", "yes"))
				k.post("a", header("Answer", "429"))
				k.post("a")
				k.post("b", header("Answer", "503")) // says nothing about what happened
				k.post("b")
			},
			1,
			counted{httpsafe.ObservedFreed: 2, httpsafe.ObservedFirst: 2, httpsafe.ObservedRetry: 1},
		},
		{
			"failures are answers",
			httpsafe.Options{},
			func(k *observedKit) { k.post("a", header("Answer", "422")); k.post("a") },
			1,
			counted{httpsafe.ObservedFirst: 1, httpsafe.ObservedRetry: 1},
		},
		{
			"refusals",
			httpsafe.Options{MaxKeyAge: time.Hour, MaxRequestBody: 10},
			func(k *observedKit) {
				k.post("a", header("Idempotency-Key", "a", "b"))
				k.post("a", func(r *http.Request) { r.Header.Del("Caller") })
				k.post("a", header("Early-Data", "1"))
				k.post("a", body("more than ten bytes"))
				k.post("a", body("more than ten bytes"), func(r *http.Request) { r.ContentLength = -1 })
				k.post(old)
			},
			0,
			counted{httpsafe.ObservedRefused: 6},
		},
		{
			"a method that is not supported",
			httpsafe.Options{Profile: strict},
			func(k *observedKit) {
				k.post("", method("PUT"), header("Idempotency-Key", "1"))
				k.handler.ServeHTTP(httptest.NewRecorder(), request("a", method("GET"))) // not counted
			},
			0,
			counted{httpsafe.ObservedRefused: 1},
		},
		{
			"keys in the body",
			httpsafe.Options{KeySource: httpsafe.KeyInBody{Pointer: "/id"}, Required: true},
			func(k *observedKit) {
				k.post("", body(`{"id":"a"}`))
				k.post("", body(`{"id":"a"}`))
				k.post("", body(`{}`))
			},
			1,
			counted{httpsafe.ObservedFirst: 1, httpsafe.ObservedRetry: 1, httpsafe.ObservedMissing: 1},
		},
		{
			"keys made of the body",
			httpsafe.Options{
				KeySource: httpsafe.BodyHash{Secret: []byte("s"), Fields: fingerprint.Fields{Include: []string{"/n"}}},
			},
			func(k *observedKit) {
				k.post("", body(`{"n":1}`))
				k.post("", body(`{"n":1}`))
				k.post("", body(`{"n":2}`))
			},
			1,
			counted{httpsafe.ObservedFirst: 2, httpsafe.ObservedRetry: 1},
		},
		{
			"what the handler says",
			httpsafe.Options{},
			func(k *observedKit) {
				k.handle(httpsafe.Options{}, httpsafe.ScopeNone(), func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					if err := httpsafe.Release(r.Context()); err != nil {
						k.Error(err)
					}
				})
				k.post("a")
				k.post("a")
			},
			0,
			counted{httpsafe.ObservedFreed: 2},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := observe(t, c.options, httpsafe.ObservationOptions{})
			c.send(k)
			k.want(c.reused, c.want)
		})
	}
}

// TestObserveConcurrent: of two requests at the same time both run, and neither waits for the other.
//
// Seen to fail with ended taken out of work.
func TestObserveConcurrent(t *testing.T) {
	k := observe(t, httpsafe.Options{}, httpsafe.ObservationOptions{})
	began, goOn := make(chan string, 2), make(chan struct{})
	k.handle(httpsafe.Options{}, httpsafe.ScopeNone(), func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		began <- r.Header.Get("N")
		<-goOn
	})
	var both sync.WaitGroup
	for _, n := range []string{"1", "2"} {
		both.Go(func() { k.handler.ServeHTTP(httptest.NewRecorder(), request("a", header("N", n))) })
		if got := <-began; got != n {
			t.Errorf("request %s began, not %s", got, n)
		}
		eventually(t, func() bool { // the first holds the key
			s, err := k.store.Stats(context.Background())
			return err == nil && s.Pending > 0
		})
	}
	eventually(t, func() bool { // the second has looked, and used the key again
		s, err := k.store.Stats(context.Background())
		return err == nil && s.Succeeded > 0
	})
	close(goOn)
	both.Wait()
	eventually(t, func() bool { return k.requests() == 2 })
	k.post("a")
	k.want(1, counted{httpsafe.ObservedFirst: 1, httpsafe.ObservedConcurrent: 1, httpsafe.ObservedRetry: 1})
}

// TestObserveUnread: a body that the handler does not read is not read for it, and the request is not observed; unless the
// body does not count.
//
// Seen to fail with done taken out of result.
func TestObserveUnread(t *testing.T) {
	unread := func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusTeapot) }
	k := observe(t, httpsafe.Options{}, httpsafe.ObservationOptions{})
	k.handle(httpsafe.Options{}, httpsafe.ScopeNone(), unread)
	read := false
	k.post("a", func(r *http.Request) {
		r.Body = io.NopCloser(readerFunc(func([]byte) (int, error) { read = true; return 0, io.EOF }))
	})
	k.want(0, counted{httpsafe.ObservedUnread: 1})
	if read {
		t.Error("the body was read")
	}
	k.handle(httpsafe.Options{Fingerprint: httpsafe.FingerprintNone()}, httpsafe.ScopeNone(), unread)
	k.post("a")
	k.post("a")
	k.want(1, counted{httpsafe.ObservedUnread: 1, httpsafe.ObservedFirst: 1, httpsafe.ObservedRetry: 1})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// keySourceFunc is a KeySource that does as it likes.
type keySourceFunc func() (string, error)

func (keySourceFunc) NeedsBody() bool                             { return false }
func (f keySourceFunc) Key(*http.Request, []byte) (string, error) { return f() }

// TestObservePanics: a panic in a function of the user is counted, and changes nothing. One of the handler goes on as
// without Observe, and its key counts as after a crash.
//
// Seen to fail, by the end of the process, with recover taken out of watch.
func TestObservePanics(t *testing.T) {
	panics := func() string { panic("of the user") }
	for name, o := range map[string]httpsafe.Options{
		"scope": {},
		"key":   {KeySource: keySourceFunc(func() (string, error) { return panics(), nil })},
		"fingerprint": {
			Fingerprint: httpsafe.FingerprintFunc("mine", func(*http.Request, []byte) string { return panics() }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := observe(t, o, httpsafe.ObservationOptions{})
			scope := httpsafe.ScopeNone()
			if name == "scope" {
				scope = func(*http.Request) (string, error) { return panics(), nil }
			}
			k.handle(o, scope, answerAsAsked)
			if w := k.post("a", header("Answer", "201")); w.Code != http.StatusCreated {
				t.Errorf("the answer is %d", w.Code)
			}
			k.want(0, counted{httpsafe.ObservedPanic: 1})
		})
	}
	t.Run("handler", func(t *testing.T) {
		k := observe(t, httpsafe.Options{}, httpsafe.ObservationOptions{})
		k.handle(httpsafe.Options{}, httpsafe.ScopeNone(), func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			panic("of the handler")
		})
		for range 2 {
			func() {
				defer func() {
					if p := recover(); p != "of the handler" {
						t.Errorf("recovered %v", p)
					}
				}()
				k.post("a")
			}()
			eventually(t, func() bool { return k.requests() > 0 })
		}
		eventually(t, func() bool { return k.requests() == 2 })
		k.want(1, counted{httpsafe.ObservedFirst: 1, httpsafe.ObservedUnknown: 1})
	})
}

// TestObserveHanging: a function of the user that waits until its context ends gives the place of its request back, and
// the request does not count as one that a Middleware would have refused.
//
// Seen to fail with "WithCancel" in the place of WithTimeout in find, by a deadlock, and with ObservedPanic taken out
// of it.
func TestObserveHanging(t *testing.T) {
	hang := func(r *http.Request) error { <-r.Context().Done(); return r.Context().Err() }
	for name, o := range map[string]httpsafe.Options{
		"scope":  {},
		"verify": {VerifyFunc: func(r *http.Request, _ []byte) error { return hang(r) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := observe(t, o, httpsafe.ObservationOptions{MaxInFlight: 1})
				scope := httpsafe.ScopeNone()
				if name == "scope" {
					scope = func(r *http.Request) (string, error) { return "", hang(r) }
				}
				k.handle(o, scope, answerAsAsked)
				for _, key := range []string{"a", "b"} {
					k.handler.ServeHTTP(httptest.NewRecorder(), request(key))
					k.handler.ServeHTTP(httptest.NewRecorder(), request(key)) // while the place is taken
					time.Sleep(time.Minute)
				}
				k.want(0, counted{httpsafe.ObservedPanic: 2, httpsafe.ObservedBusy: 2})
			})
		})
	}
}

// TestFromObserveToMiddleware: a route that is observed and then guarded begins afresh. The first request after the change
// runs, and from then on each key runs once. An observed record is never taken for an answer, nor in the other direction.
//
// Seen to fail with observedPrefix set to "".
func TestFromObserveToMiddleware(t *testing.T) {
	k := observe(t, httpsafe.Options{}, httpsafe.ObservationOptions{})
	k.post("a")
	k.post("a")
	observed := k.handler
	ran := 0
	guarded := httpsafe.Middleware(k.guard, httpsafe.ScopeHeader("Caller"), httpsafe.Options{})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ran++
			fmt.Fprint(w, "paid ", ran)
		}))
	for _, key := range []string{"a", "a", "b", "b"} {
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, request(key))
		if want := map[string]string{"a": "paid 1", "b": "paid 2"}[key]; w.Body.String() != want {
			t.Errorf("key %s got %d %q, want %q", key, w.Code, w.Body, want)
		}
	}
	k.handler = observed
	k.post("b") // back again
	k.want(1, counted{httpsafe.ObservedFirst: 2, httpsafe.ObservedRetry: 1})
	records, err := k.store.List(context.Background(), retrysafe.ListParams{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if observed := httpsafe.IsObservedScope(r.Key.Scope); observed == (r.Key.Scope == "alice") {
			t.Errorf("scope %q is observed: %v", r.Key.Scope, observed)
		}
	}
	if len(records) != 5 { // two observed, one used again, two guarded
		t.Errorf("%d records", len(records))
	}
}

// TestObserveInsideOfMiddleware: what the handler says reaches the Middleware around it.
//
// Seen to fail with outer taken out of decide.
func TestObserveInsideOfMiddleware(t *testing.T) {
	k := observe(t, httpsafe.Options{}, httpsafe.ObservationOptions{})
	ran := 0
	k.handle(httpsafe.Options{}, httpsafe.ScopeHeader("Tenant"), func(w http.ResponseWriter, r *http.Request) {
		ran++
		if err := httpsafe.Release(r.Context()); err != nil {
			t.Error(err)
		}
	})
	guarded := httpsafe.Middleware(k.guard, httpsafe.ScopeHeader("Caller"), httpsafe.Options{})(k.handler)
	for range 2 {
		guarded.ServeHTTP(httptest.NewRecorder(), request("a", header("Tenant", "t")))
	}
	if ran != 2 {
		t.Errorf("the handler ran %d times: the key was not released", ran)
	}
}

// TestObserveChecksItsArguments: mistakes in the program panic at start.
func TestObserveChecksItsArguments(t *testing.T) {
	k := observe(t, httpsafe.Options{}, httpsafe.ObservationOptions{})
	for name, f := range map[string]func(){
		"no scope":    func() { httpsafe.Observe(k.seen, nil, httpsafe.Options{}) },
		"bad options": func() { httpsafe.Observe(k.seen, httpsafe.ScopeNone(), httpsafe.Options{Attempts: -1}) },
		"no unit":     func() { httpsafe.NewObservation(k.guard, httpsafe.ObservationOptions{StoreTimeout: 5}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}
