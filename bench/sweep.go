package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/figure"
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
		in := sweepAsked{Dir: r.dir, Name: "sweep" + d.Name, Rounds: r.rounds(5, 1), Rows: 50_000, Idle: 2 * time.Second}
		if r.quick {
			in.Rows, in.Idle = 30_000, time.Second
		}
		trace := ""
		if d.Delay > 0 {
			trace = filepath.Join(r.dir, "syncs")
		}
		got, err := callRole[sweepFound](ctx, d, trace, r.profile(3), "sweep", in)
		if err != nil {
			return err
		}
		r.add(ctx, figure.Figure{
			Goal: 3, Disk: d.Name, Unit: "rows/s", What: "sqlitestore: swept, 64 callers busy",
			Samples: got.Rate, Aside: "aim: 50k; no target, since it depends on the CPU",
		})
		r.add(ctx, figure.Figure{
			Goal: 3, Disk: d.Name, Unit: "x", What: "callers' p99 during the sweep ÷ before it",
			Samples: ratios(got.Busy, got.Idle), Target: figure.AtMost(5),
			Aside: fmt.Sprintf("p99 of a pair: %s ms before, %s ms during; pairs/s: %s, %s; %s rows to sweep",
				figure.Short(figure.Median(got.Idle)), figure.Short(figure.Median(got.Busy)),
				figure.Short(figure.Median(got.IdlePairs)), figure.Short(figure.Median(got.BusyPairs)),
				figure.Short(float64(in.Rows))),
		})
	}
	return nil
}

type sweepAsked struct {
	Dir, Name string
	Rounds    int
	Rows      int64
	Idle      time.Duration
}

// sweepFound holds a value per round: rows per second, the callers' p99 in milliseconds, their pairs per second.
type sweepFound struct {
	Rate, Idle, Busy, IdlePairs, BusyPairs []float64
}

func sweepRole(ctx context.Context, text json.RawMessage, _ func(any) error) (_ any, err error) {
	var in sweepAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	store, err := sqlitestore.Open(filepath.Join(in.Dir, in.Name+".db"), sqlitestore.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var found sweepFound
	for i := range in.Rounds {
		if err := found.round(ctx, store, in, int64(i)*in.Rows); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// round fills the store with rows that expire together, and measures the callers before and during the sweep.
func (f *sweepFound) round(ctx context.Context, s *sqlitestore.Store, in sweepAsked, first int64) error {
	expiry, err := fillExpiring(ctx, s, first, in)
	if err != nil {
		return err
	}
	before, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	callers := startCallers(ctx, s)
	time.Sleep(time.Until(expiry.Add(-in.Idle)))
	callers.cut()
	time.Sleep(time.Until(expiry))
	idle, idleFor := callers.cut()
	if _, err := sweepAll(ctx, s); err != nil {
		return err
	}
	busy, busyFor := callers.cut()
	pairs, err := callers.stop()
	if err != nil {
		return err
	}
	after, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	// Counted from the totals, because the store may also sweep by itself.
	swept := before.Succeeded + pairs - after.Succeeded
	if swept < in.Rows {
		return fmt.Errorf("swept %d rows of %d", swept, in.Rows)
	}
	f.Rate = append(f.Rate, perSecond(swept, busyFor))
	f.Idle = append(f.Idle, millis(figure.Percentile(idle, 0.99)))
	f.Busy = append(f.Busy, millis(figure.Percentile(busy, 0.99)))
	f.IdlePairs = append(f.IdlePairs, perSecond(int64(len(idle)), idleFor))
	f.BusyPairs = append(f.BusyPairs, perSecond(int64(len(busy)), busyFor))
	return nil
}

// fillExpiring completes in.Rows keys that all expire at the same moment, about in.Idle after the filling has ended.
func fillExpiring(ctx context.Context, s *sqlitestore.Store, first int64, in sweepAsked) (time.Time, error) {
	took, err := fillSample(ctx, s, first, in.Rows)
	if err != nil {
		return time.Time{}, err
	}
	for range 3 {
		const margin = 3 // filling gets slower as the file grows
		expiry := time.Now().Add(took*margin/2 + 2*in.Idle)
		began := time.Now()
		until := func() retrysafe.Retention {
			left := max(time.Until(expiry), time.Millisecond)
			return retrysafe.Retention{Replay: left, Key: left, Audit: left}
		}
		if err := fill(ctx, s, first, first+in.Rows, until); err != nil {
			return expiry, err
		}
		if time.Until(expiry) >= in.Idle {
			return expiry, nil
		}
		// It took too long. Delete the rows and try again.
		took = time.Since(began)
		time.Sleep(time.Until(expiry))
		if _, err := sweepAll(ctx, s); err != nil {
			return expiry, err
		}
	}
	return time.Time{}, errors.New("filling takes longer each time: the machine is too busy to measure")
}

// fillSample fills a little with unused keys, and returns the estimated time for rows rows.
func fillSample(ctx context.Context, s *sqlitestore.Store, first, rows int64) (time.Duration, error) {
	const part = 20
	base := first + int64(1)<<40
	began := time.Now()
	err := fill(ctx, s, base, base+rows/part, func() retrysafe.Retention { return retrysafe.Retention{} })
	return time.Since(began) * part, err
}

// sweepAll sweeps like a Guard, until nothing is due.
func sweepAll(ctx context.Context, s retrysafe.Sweeper) (swept int64, err error) {
	for {
		n, err := s.Sweep(ctx, sweepLimit)
		swept += int64(n)
		if err != nil || n < sweepLimit {
			return swept, err
		}
	}
}

// callers work on fresh keys until they are stopped.
type callers struct {
	done   chan struct{}
	wg     sync.WaitGroup
	failed firstError

	mu    sync.Mutex
	since time.Time
	took  []int64 // nanoseconds, since the last cut
	total int64
}

func startCallers(ctx context.Context, s retrysafe.Store) *callers {
	c := &callers{done: make(chan struct{}), since: time.Now()}
	result := pairResult()
	for range sweepCallers {
		c.wg.Go(func() {
			for !c.stopped() {
				began := time.Now()
				if err := storePair(ctx, s, result, retrysafe.Retention{}); err != nil {
					c.failed.set(err)
					return
				}
				c.note(time.Since(began))
			}
		})
	}
	return c
}

func (c *callers) stopped() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *callers) note(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, d.Nanoseconds())
	c.total++
}

// cut returns the durations of the pairs since the last cut, and the time since then.
func (c *callers) cut() ([]int64, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took, since := c.took, c.since
	c.took, c.since = make([]int64, 0, 2*len(took)), time.Now()
	return took, time.Since(since)
}

// stop stops the callers and returns the number of all pairs.
func (c *callers) stop() (int64, error) {
	close(c.done)
	c.wg.Wait()
	return c.total, c.failed.err
}

func millis(ns int64) float64 { return float64(ns) / 1e6 }
