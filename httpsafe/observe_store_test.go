package httpsafe_test

import (
	"context"
	"fmt"
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
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// slowStore answers no claim before its context ends, or fails at once, as long as it is down.
type slowStore struct {
	retrysafe.Store
	down   atomic.Int64 // 1: fails; 2: does not answer
	claims atomic.Int64
}

func (s *slowStore) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	s.claims.Add(1)
	switch s.down.Load() {
	case 1:
		return retrysafe.Claim{}, errDown
	case 2:
		<-ctx.Done()
		return retrysafe.Claim{}, ctx.Err()
	}
	return s.Store.Claim(ctx, p)
}

// TestObserveWithoutStore: while the store fails or does not answer, requests are served and counted as not observed, and
// few of them ask the store; afterwards they are observed again.
//
// Seen to fail with mayAsk made to return true; and, as it waits for the store for ever, with StoreTimeout taken out of
// NewObservation and a timeout of an hour in its place.
func TestObserveWithoutStore(t *testing.T) {
	for state, name := range []string{1: "fails", 2: "does not answer"} {
		if state == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := &slowStore{Store: memstore.New(memstore.Options{})}
			k := &observedKit{T: t, guard: retrysafe.New(s, retrysafe.Options{})}
			k.seen = httpsafe.NewObservation(k.guard, httpsafe.ObservationOptions{StoreTimeout: time.Second})
			k.handle(httpsafe.Options{}, httpsafe.ScopeNone(), answerAsAsked)
			s.down.Store(int64(state))
			k.post("first")
			asked := s.claims.Load()
			for n := range 200 {
				w := httptest.NewRecorder()
				if k.handler.ServeHTTP(w, request(fmt.Sprint(n))); w.Code != http.StatusOK {
					t.Errorf("the answer is %d", w.Code)
				}
			}
			eventually(t, func() bool { return k.requests() == 201 })
			if more := s.claims.Load() - asked; more > 100 {
				t.Errorf("200 requests made %d claims", more)
			}
			k.want(0, counted{httpsafe.ObservedStore: 201})
			s.down.Store(0)
			eventually(t, func() bool { k.post("b"); all, _ := k.counts(); return all[httpsafe.ObservedRetry] > 0 })
			if all, _ := k.counts(); all[httpsafe.ObservedFirst] != 1 {
				t.Errorf("the store works again, and %v was counted", all)
			}
		})
	}
}

// TestObserveBesideALongRequest: after the store has failed, one request tries whether it works again. Its handler
// may run for hours, and others are observed meanwhile.
//
// Seen to fail with heard taken out of work: the second request counted as ObservedStore.
func TestObserveBesideALongRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{Store: memstore.New(memstore.Options{})}
		k := &observedKit{T: t, guard: retrysafe.New(s, retrysafe.Options{})}
		k.seen = httpsafe.NewObservation(k.guard, httpsafe.ObservationOptions{})
		goOn := make(chan struct{})
		k.handle(httpsafe.Options{}, httpsafe.ScopeNone(), func(w http.ResponseWriter, r *http.Request) {
			answerAsAsked(w, r)
			if r.Header.Get("Idempotency-Key") == "long" {
				<-goOn
			}
		})
		s.down.Store(1)
		k.post("lost")
		s.down.Store(0)
		time.Sleep(time.Minute) // the store is left alone for a while
		go k.handler.ServeHTTP(httptest.NewRecorder(), request("long"))
		synctest.Wait()
		k.post("short")
		k.want(0, counted{httpsafe.ObservedStore: 1, httpsafe.ObservedFirst: 1})
		close(goOn)
		if err := k.seen.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		k.want(0, counted{httpsafe.ObservedStore: 1, httpsafe.ObservedFirst: 2})
	})
}

// TestObserveBounds: no more is observed at once than the options allow, in number and in bytes; the rest is served.
//
// Seen to fail with enter made to return true, and with grow made to return true.
func TestObserveBounds(t *testing.T) {
	for _, c := range []struct {
		name    string
		options httpsafe.Options
		bounds  httpsafe.ObservationOptions
	}{
		{"number", httpsafe.Options{}, httpsafe.ObservationOptions{MaxInFlight: 10}},
		{"headers", httpsafe.Options{}, httpsafe.ObservationOptions{MaxMemory: 10 * (8<<10 + 100)}},
		{"bodies", httpsafe.Options{Fingerprint: httpsafe.FingerprintJSON()}, httpsafe.ObservationOptions{MaxMemory: 1 << 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := observe(t, c.options, c.bounds)
			began, goOn := make(chan struct{}), make(chan struct{})
			k.handle(c.options, httpsafe.ScopeNone(), func(w http.ResponseWriter, r *http.Request) {
				answerAsAsked(w, r)
				began <- struct{}{}
				<-goOn
			})
			var all sync.WaitGroup
			for n := range 40 {
				change := body("{}")
				if c.name == "bodies" {
					change = body(strings.Repeat(" ", 80<<10))
				}
				all.Go(func() { k.handler.ServeHTTP(httptest.NewRecorder(), request(fmt.Sprint(n), change)) })
				<-began
			}
			close(goOn)
			all.Wait()
			eventually(t, func() bool { return k.requests() == 40 })
			got, _ := k.counts()
			if first := got[httpsafe.ObservedFirst]; first == 0 || first > 12 || got[httpsafe.ObservedBusy] != 40-first {
				t.Errorf("counted %v", got)
			}
			go func() { <-began }()
			k.post("again") // everything was given back
			if again, _ := k.counts(); again[httpsafe.ObservedFirst] != got[httpsafe.ObservedFirst]+1 {
				t.Errorf("counted %v, then %v", got, again)
			}
		})
	}
}

// TestObserveShutdown: after Shutdown requests are served, and the store is not used.
func TestObserveShutdown(t *testing.T) {
	k := observe(t, httpsafe.Options{}, httpsafe.ObservationOptions{})
	if err := k.seen.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	k.store.beforeClaim = func() { t.Error("the store was used") }
	k.post("a")
	k.want(0, counted{httpsafe.ObservedStore: 1})
}

// slowSweeper notes how long a sweep may take.
type slowSweeper struct {
	retrysafe.Store
	left chan time.Duration
}

func (s slowSweeper) Sweep(ctx context.Context, _ int) (int, error) {
	deadline, _ := ctx.Deadline()
	s.left <- time.Until(deadline)
	return 0, nil
}

// TestObserveSweeps: if all requests are observed, they set off sweeps too, which have more time than the calls for requests,
// and whose end the Observer is told.
//
// Seen to fail with sweepTimeout taken out of Sweep, and with Observer taken out of NewObservation.
func TestObserveSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowSweeper{memstore.New(memstore.Options{}), make(chan time.Duration, 1)}
		told := make(chan retrysafe.Event, 1)
		k := &observedKit{T: t, guard: retrysafe.New(s, retrysafe.Options{})}
		k.seen = httpsafe.NewObservation(k.guard, httpsafe.ObservationOptions{
			StoreTimeout: time.Second,
			Observer:     retrysafe.ObserverFunc(func(_ context.Context, e retrysafe.Event) { told <- e }),
		})
		k.handle(httpsafe.Options{}, httpsafe.ScopeNone(), answerAsAsked)
		k.post("a")
		if left := <-s.left; left < 2*time.Second {
			t.Errorf("a sweep may take %v", left)
		}
		select {
		case e := <-told:
			if e.Kind != retrysafe.SweepEnded {
				t.Errorf("told %v", e.Kind)
			}
		case <-time.After(30 * time.Second):
			t.Error("the observer is not told")
		}
	})
}
