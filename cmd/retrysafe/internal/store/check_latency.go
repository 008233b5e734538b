package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// latency is what calls of a store took while so many callers made them without a pause.
type latency struct {
	Callers        int     `json:"callers"`
	PairsPerSecond float64 `json:"pairs_per_second"` // claims and completions of new keys
	Claim          times   `json:"claim"`
	Complete       times   `json:"complete"`
	Replay         times   `json:"replay"`
}

// times are quantiles in milliseconds, of n calls.
type times struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

// measure lets callers claim, complete and replay new keys for a while.
func measure(ctx context.Context, s retrysafe.Store, callers int, each time.Duration) (latency, error) {
	began := time.Now()
	took, errs := make([][3][]time.Duration, callers), make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for { // once at least, however late it begins
				if errs[i] = pair(ctx, s, &took[i]); errs[i] != nil || time.Since(began) >= each {
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return latency{}, err
	}
	var merged [3][]time.Duration
	for _, t := range took {
		for i := range merged {
			merged[i] = append(merged[i], t[i]...)
		}
	}
	l := latency{Callers: callers, Claim: quantiles(merged[0]), Complete: quantiles(merged[1]), Replay: quantiles(merged[2])}
	working := total(merged[0]) + total(merged[1])
	l.PairsPerSecond = float64(l.Claim.N*callers) / working.Seconds()
	return l, nil
}

// pair claims a new key, completes it and asks for its answer, and notes how long each of the three took.
func pair(ctx context.Context, s retrysafe.Store, took *[3][]time.Duration) error {
	start := time.Now()
	p, l, err := take(ctx, s)
	if err != nil {
		return err
	}
	claimed := time.Now()
	if err := s.Complete(ctx, l, retrysafe.Result{Code: 201, Body: []byte(`{"id":"check"}`)}, keep); err != nil {
		return err
	}
	completed := time.Now()
	if _, err := expect(ctx, s, byAnother(p), retrysafe.Done); err != nil {
		return err
	}
	for i, d := range []time.Duration{claimed.Sub(start), completed.Sub(claimed), time.Since(completed)} {
		took[i] = append(took[i], d)
	}
	return nil
}

func quantiles(all []time.Duration) times {
	slices.Sort(all)
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
	return times{N: len(all), P50: at(0.5), P99: at(0.99)}
}

func total(all []time.Duration) (sum time.Duration) {
	for _, d := range all {
		sum += d
	}
	return sum
}
