package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
)

// callers work on fresh keys until they are stopped.
type callers struct {
	all    errgroup.Group
	ending atomic.Bool

	mu    sync.Mutex
	since time.Time
	took  figure.Samples // milliseconds, since the last cut
	total int64
}

func startCallers(ctx context.Context, s retrysafe.Store) *callers {
	c := &callers{since: time.Now()}
	result := peers.Result()
	for range sweepCallers {
		c.all.Go(func() error {
			for !c.ending.Load() {
				began := time.Now()
				if err := storePair(ctx, s, result); err != nil {
					return err
				}
				c.note(time.Since(began))
			}
			return nil
		})
	}
	return c
}

func (c *callers) note(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, millis(d))
	c.total++
}

// cut returns the durations of the pairs since the last cut, and the time since then.
func (c *callers) cut() (figure.Samples, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took, since := c.took, c.since
	c.took, c.since = make(figure.Samples, 0, 2*len(took)), time.Now()
	return took, time.Since(since)
}

// stop stops the callers and returns the number of all pairs.
func (c *callers) stop() (int64, error) {
	c.ending.Store(true)
	err := c.all.Wait()
	return c.total, err
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
