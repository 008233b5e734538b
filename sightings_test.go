package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// keeper counts the calls of AddSightings, and fails when told to.
type keeper struct {
	*memstore.Store
	calls   atomic.Int32
	largest atomic.Int32
	fails   atomic.Bool
}

func (k *keeper) AddSightings(ctx context.Context, all []retrysafe.KeySighting) error {
	k.calls.Add(1)
	k.largest.Store(max(k.largest.Load(), int32(len(all))))
	if k.fails.Load() {
		return errors.New("the store is down")
	}
	return k.Store.AddSightings(ctx, all)
}

func sightingsOf(t *testing.T, k *keeper, id string) map[retrysafe.SightingKind]retrysafe.Sighting {
	t.Helper()
	found, err := k.Inspect(t.Context(), retrysafe.Key{ID: id}.Digest())
	if err != nil || len(found) == 0 {
		t.Fatalf("Inspect %s: got %v, %v", id, found, err)
	}
	seen := map[retrysafe.SightingKind]retrysafe.Sighting{}
	for _, s := range found[0].Sightings {
		seen[s.Kind] = s
	}
	return seen
}

func saves(code int) retrysafe.Work {
	return func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
		return retrysafe.Result{Code: code}, nil
	}
}

// What retries find is counted by kind, and saved within a second, in one call. Seen to fail with each call of seen
// taken out.
func TestSightings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{Store: memstore.New(memstore.Options{})}
		g := retrysafe.New(k, retrysafe.Options{SweepEvery: -1})
		do := func(g *retrysafe.Guard, id string, f retrysafe.Fingerprint, w retrysafe.Work) error {
			_, err := g.Do(t.Context(), retrysafe.Request{Key: retrysafe.Key{ID: id}, Fingerprint: f}, w)
			return err
		}
		for range 3 {
			if err := do(g, "done", "raw1:one", saves(201)); err != nil {
				t.Fatal(err)
			}
		}
		if err := do(g, "done", "raw1:two", saves(201)); !errors.Is(err, retrysafe.ErrMismatch) {
			t.Fatalf("another request: got %v", err)
		}
		unknown := func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
			return retrysafe.Result{}, retrysafe.Unknown(errors.New("cut off"))
		}
		_ = do(g, "unknown", "raw1:one", unknown)
		if err := do(g, "unknown", "raw1:one", saves(201)); !errors.Is(err, retrysafe.ErrAbandoned) {
			t.Fatalf("an abandoned key: got %v", err)
		}
		refusing := g.With(retrysafe.Policy{OnInFlight: retrysafe.Reject()})
		waiting := g.With(retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Minute)})
		gate := make(chan struct{})
		go func() {
			_ = do(g, "busy", "raw1:one", func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
				<-gate
				return retrysafe.Result{Code: 200}, nil
			})
		}()
		synctest.Wait()
		if err := do(refusing, "busy", "raw1:one", saves(201)); !errors.Is(err, retrysafe.ErrInFlight) {
			t.Fatalf("a key in flight: got %v", err)
		}
		waited := make(chan error)
		go func() { waited <- do(waiting, "busy", "raw1:one", saves(201)) }()
		synctest.Wait()
		close(gate)
		if err := <-waited; err != nil {
			t.Fatalf("a request that waited: got %v", err)
		}
		if k.calls.Load() != 0 {
			t.Errorf("the requests have called AddSightings %d times", k.calls.Load())
		}
		time.Sleep(2 * time.Second)
		if k.calls.Load() != 1 {
			t.Errorf("AddSightings was called %d times, want 1", k.calls.Load())
		}
		for id, want := range map[string]map[retrysafe.SightingKind][2]int64{ // count and code
			"done":    {retrysafe.SeenReplayed: {2, 201}, retrysafe.SeenMismatch: {1, 0}},
			"unknown": {retrysafe.SeenRefused: {1, 0}},
			"busy":    {retrysafe.SeenInFlight: {1, 0}, retrysafe.SeenWaiting: {1, 0}, retrysafe.SeenReplayed: {1, 200}},
		} {
			got := map[retrysafe.SightingKind][2]int64{}
			for kind, s := range sightingsOf(t, k, id) {
				got[kind] = [2]int64{s.Count, int64(s.Code)}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %v, want %v", id, got, want)
			}
		}
		if err := g.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// Shutdown saves what the last second has counted, and the store is not called after it. Seen to fail without
// stopSightings.
func TestSightingsAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{Store: memstore.New(memstore.Options{})}
		g := retrysafe.New(k, retrysafe.Options{SweepEvery: -1})
		for range 2 {
			if _, err := g.Do(t.Context(), retrysafe.Request{Key: retrysafe.Key{ID: "k"}}, saves(201)); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := sightingsOf(t, k, "k")[retrysafe.SeenReplayed].Count; got != 1 || k.calls.Load() != 1 {
			t.Errorf("got %d replays after %d calls, want 1 after 1", got, k.calls.Load())
		}
		time.Sleep(time.Minute)
		if k.calls.Load() != 1 {
			t.Errorf("AddSightings was called after Shutdown")
		}
	})
}

// A crowd of keys is saved in batches, a bounded number is remembered, and a store that fails costs requests nothing.
// Seen to fail with maxCounted taken out of seen, and with no limit in takeBatch.
func TestSightingsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{Store: memstore.New(memstore.Options{})}
		g := retrysafe.New(k, retrysafe.Options{SweepEvery: -1})
		const keys = 12 * retrysafe.MaxSightings
		replayAll := func() {
			t.Helper()
			for i := range keys {
				key := retrysafe.Key{ID: fmt.Sprint(i)}
				if _, err := g.Do(t.Context(), retrysafe.Request{Key: key}, saves(201)); err != nil {
					t.Fatal(err)
				}
			}
		}
		replayAll() // claims
		replayAll()
		time.Sleep(time.Minute)
		if k.calls.Load() != 10 || k.largest.Load() != retrysafe.MaxSightings {
			t.Errorf("%d calls, the largest with %d; want 10 with %d", k.calls.Load(), k.largest.Load(), retrysafe.MaxSightings)
		}
		k.fails.Store(true)
		replayAll()
		time.Sleep(time.Minute)
		k.fails.Store(false)
		calls := k.calls.Load()
		time.Sleep(time.Minute)
		if k.calls.Load() != calls {
			t.Errorf("what could not be saved was saved again")
		}
		if err := g.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// hiding is a store that keeps no sightings.
type hiding struct{ retrysafe.Store }

// A replay with and without a count of it, in turns, so that a busy machine slows both. The metric ns-more/op is what
// counting costs a request; a request through the proxy takes a hundred times as much CPU.
func BenchmarkSightings(b *testing.B) {
	counted := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{SweepEvery: -1})
	plain := retrysafe.New(hiding{memstore.New(memstore.Options{})}, retrysafe.Options{SweepEvery: -1})
	guards := []*retrysafe.Guard{plain, counted}
	var took [2]time.Duration
	const turn = 1000
	for n := 0; n < b.N; n += turn {
		for i, g := range guards {
			began := time.Now()
			for j := range turn {
				key := retrysafe.Key{ID: fmt.Sprint("k", j%100)}
				if _, err := g.Do(b.Context(), retrysafe.Request{Key: key}, saves(201)); err != nil {
					b.Fatal(err)
				}
			}
			took[i] += time.Since(began)
		}
	}
	b.ReportMetric(float64(took[1]-took[0])/float64(max(b.N, turn)), "ns-more/op")
	b.ReportMetric(float64(took[1])/float64(took[0]), "x")
	for _, g := range guards {
		if err := g.Shutdown(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
