package demo

import (
	"context"
	"sync"
	"time"
)

const (
	countEvery = time.Second // how often it is looked whether many come
	oneByOne   = 5           // charges in that time are not many
)

// counter shows charges as they come. While many do, as when a probe makes hundreds, it shows their number, time and
// again.
type counter struct {
	screen *screen

	mu     sync.Mutex
	shown  int   // since fewer came
	hidden int   // since the last sum
	last   int64 // of the hidden ones, by number
}

func newCounter(s *screen) *counter { return &counter{screen: s} }

// count shows a charge, or remembers it for the sum.
func (c *counter) count(r row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown == oneByOne {
		c.hidden, c.last = c.hidden+1, max(c.last, r.ID)
		return
	}
	c.shown++
	c.screen.result(green, "charge %d: %s, order %s, amount %d", r.ID, r.Customer, r.Order, r.Amount)
}

// show sums up, time and again, until ctx ends.
func (c *counter) show(ctx context.Context) {
	again := time.NewTicker(countEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			c.sum()
		case <-ctx.Done():
			return
		}
	}
}

// sum shows how many charges have been hidden. If none was, the next ones are shown again.
func (c *counter) sum() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hidden == 0 {
		c.shown = 0
		return
	}
	c.screen.result(green, "%s more, up to number %d", charges(c.hidden), c.last)
	c.hidden = 0
}
