package retrysafe_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func nothing(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
	return retrysafe.Result{}, nil
}

func newGuard() *retrysafe.Guard {
	return retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{SweepEvery: -1})
}

func BenchmarkFresh(b *testing.B) {
	g := newGuard()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%500_000 == 499_999 {
			g = newGuard()
		}
		if _, err := g.Do(b.Context(), request(strconv.Itoa(i), "raw1:a"), nothing); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWatchedContext measures work that looks at its context, as nearly all work does that calls a database or a
// server.
func BenchmarkWatchedContext(b *testing.B) {
	g := newGuard()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%500_000 == 499_999 {
			g = newGuard()
		}
		_, err := g.Do(b.Context(), request(strconv.Itoa(i), "raw1:a"),
			func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
				select {
				case <-ctx.Done():
				default:
				}
				return retrysafe.Result{}, nil
			})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	g := newGuard()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Do(b.Context(), pay(), nothing); err != nil {
			b.Fatal(err)
		}
	}
}

// What a request costs in allocations, the store's included: gates, since they are exact. Seen to fail with a timer for
// each attempt.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates")
		return
	}
	g := newGuard()
	i := 0
	fresh := testing.AllocsPerRun(1000, func() {
		i++
		g.Do(t.Context(), request(strconv.Itoa(i), "raw1:a"), nothing)
	})
	replay := testing.AllocsPerRun(1000, func() { g.Do(t.Context(), request("1", "raw1:a"), nothing) })
	t.Logf("fresh %v, replay %v", fresh, replay)
	if fresh > 5 || replay > 1 {
		t.Errorf("a fresh request allocates %v times, want at most 5; a replay %v, want at most 1", fresh, replay)
	}
}
