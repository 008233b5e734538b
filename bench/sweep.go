package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// Goal 3: how fast sqlitestore sweeps while callers keep it busy, and how the sweep affects the callers.

// sweepCallers is the number of callers that work without a pause, before and during the sweep.
const sweepCallers = 64

// sweepLimit is the limit with which a Guard calls Sweep.
const sweepLimit = 500

func sweepGoal(ctx context.Context, r *run) error {
	for _, d := range r.disks() {
		r.progress("fill, idle, sweep; disk %s", d.Name)
		in := sweep{Dir: r.dir, Name: "sweep" + d.Name, Rounds: r.rounds(5, 1), Rows: 50_000, Idle: 2 * time.Second}
		if r.Quick {
			in.Rows, in.Idle = 30_000, time.Second
		}
		at := place{disk: d, profile: r.profile()}
		if d.Delay > 0 {
			at.trace = filepath.Join(r.dir, "syncs")
		}
		got, err := call[sweepFound](ctx, at, in)
		if err != nil {
			return err
		}
		r.add(ctx, figure.New("sqlitestore: swept, 64 callers busy", "rows/s", got.Rate...).On(d.Name).
			Note("aim: 50k; no target, since it depends on the CPU"))
		r.add(ctx, got.figure(in.Rows).On(d.Name).Want(figure.AtMost(5)))
	}
	return nil
}

// sweepFound holds one value per round: rows per second, and before the sweep and during it, the p99 of the callers'
// pairs in milliseconds, and their pairs per second.
type sweepFound struct {
	Rate, Idle, Busy, IdlePairs, BusyPairs figure.Samples
}

// add appends the rounds of another.
func (f *sweepFound) add(g sweepFound) {
	f.Rate, f.Idle, f.Busy = append(f.Rate, g.Rate...), append(f.Idle, g.Idle...), append(f.Busy, g.Busy...)
	f.IdlePairs, f.BusyPairs = append(f.IdlePairs, g.IdlePairs...), append(f.BusyPairs, g.BusyPairs...)
}

// figure compares the callers' p99.
func (f sweepFound) figure(rows int64) figure.Figure {
	return figure.Ratio("callers' p99 during the sweep ÷ before it", f.Busy, f.Idle, "ms").
		Note("%d callers, pairs/s: %v during, %v before", sweepCallers, f.BusyPairs, f.IdlePairs).
		Note("%s rows to sweep", figure.Short(float64(rows)))
}

type sweep struct {
	Dir, Name string
	Rounds    int
	Rows      int64
	Idle      time.Duration
}

func (in sweep) play(ctx context.Context, _ func(any) error) (_ any, err error) {
	store, err := sqlitestore.Open(filepath.Join(in.Dir, in.Name+".db"), sqlitestore.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var found sweepFound
	for i := range in.Rounds {
		if err := in.round(ctx, store, int64(i)*in.Rows, &found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// round fills the store with rows that expire together, and measures the callers before and during the sweep.
func (in sweep) round(ctx context.Context, s *sqlitestore.Store, first int64, found *sweepFound) error {
	due, err := in.fill(ctx, s, first)
	if err != nil {
		return err
	}
	before, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	busy, err := found.measure(ctx, s, due.first.Add(-in.Idle), due)
	if err != nil {
		return err
	}
	after, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	// Counted from the totals, because the store also sweeps by itself.
	swept := before.Succeeded + busy.pairs - after.Succeeded
	if swept < in.Rows {
		return fmt.Errorf("swept %d rows of %d: the others expired later than planned, because the machine was too busy",
			swept, in.Rows)
	}
	found.Rate = append(found.Rate, float64(swept)/busy.took.Seconds())
	return nil
}

// expiry is when the first and the last of the rows to sweep expire. They expire together, but not at one moment: the
// time that a row is kept for counts from when the store has written it, and some wait for that longer than others.
type expiry struct{ first, last time.Time }

// fill completes in.Rows keys that expire together, about in.Idle after the filling has ended.
func (in sweep) fill(ctx context.Context, s *sqlitestore.Store, first int64) (expiry, error) {
	const part = 20
	unused := first + int64(1)<<40
	began := time.Now()
	if err := fillStore(ctx, s, unused, unused+in.Rows/part); err != nil {
		return expiry{}, err
	}
	took := time.Since(began) * part
	for range 3 {
		began = time.Now()
		due, err := fillExpiring(ctx, s, first, first+in.Rows, took*3/2+2*in.Idle) // it gets slower as the file grows
		if err != nil || time.Until(due.first) >= in.Idle {
			return due, err
		}
		// It took too long. Delete the rows and try again.
		took = time.Since(began)
		if _, err := sweepAll(ctx, s, due); err != nil {
			return due, err
		}
	}
	return expiry{}, errors.New("filling takes longer each time: the machine is too busy to measure")
}

// fillExpiring completes the keys from first up to but not including end, which all expire after d.
func fillExpiring(ctx context.Context, s retrysafe.Store, first, end int64, d time.Duration) (expiry, error) {
	at := time.Now().Add(d)
	due := expiry{first: at, last: at}
	result := peers.Result()
	var mu sync.Mutex
	err := forEach(ctx, fillers, first, end, func(ctx context.Context, i int64) error {
		left := max(time.Until(at), time.Millisecond)
		err := makePair(ctx, s, fillParams(i), result, retrysafe.Retention{Replay: left, Key: left, Audit: left})
		mu.Lock()
		defer mu.Unlock()
		if latest := time.Now().Add(left); latest.After(due.last) {
			due.last = latest
		}
		return err
	})
	return due, err
}

// sweepAll sweeps like a Guard, from the first expiry until the last row has expired and nothing is due.
func sweepAll(ctx context.Context, s retrysafe.Sweeper, due expiry) (swept int64, err error) {
	time.Sleep(time.Until(due.first))
	for {
		began := time.Now()
		n, err := s.Sweep(ctx, sweepLimit)
		swept += int64(n)
		if err != nil || n < sweepLimit && began.After(due.last) {
			return swept, err
		}
		if n < sweepLimit {
			time.Sleep(time.Millisecond) // the other rows expire soon
		}
	}
}

// sweptStore is a store that is measured.
type sweptStore interface {
	retrysafe.Store
	retrysafe.Sweeper
}

// busy is what happened during a sweep: how long it took, the rows that it swept, and the pairs of the callers,
// including those before it.
type busy struct {
	took         time.Duration
	swept, pairs int64
}

// measure measures callers from a moment on until the first row is due, and then during the sweep.
func (f *sweepFound) measure(ctx context.Context, s sweptStore, from time.Time, due expiry) (found busy, err error) {
	c := startCallers(ctx, s)
	time.Sleep(time.Until(from))
	c.cut()
	time.Sleep(time.Until(due.first))
	idle, idleFor := c.cut()
	found.swept, err = sweepAll(ctx, s, due)
	during, took := c.cut()
	found.took = took
	pairs, stopErr := c.stop()
	found.pairs = pairs
	f.Idle, f.Busy = append(f.Idle, idle.Quantile(0.99)), append(f.Busy, during.Quantile(0.99))
	f.IdlePairs = append(f.IdlePairs, float64(len(idle))/idleFor.Seconds())
	f.BusyPairs = append(f.BusyPairs, float64(len(during))/took.Seconds())
	return found, errors.Join(err, stopErr)
}
