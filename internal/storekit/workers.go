package storekit

import (
	"context"
	"runtime"
	"sync"
	"time"
)

const (
	// maxBatch is how many operations share one transaction at most.
	maxBatch = 512
	// Patience is how long a batch may take before another worker runs in place of the one that is held up: it waits
	// for a row that another transaction has locked, and the operations in the queue need other rows.
	Patience = time.Second
)

// Workers run operations of a store, each with one connection at a time. An operation starts at once if a worker is free.
// Otherwise it waits in the queue, and a worker takes all that wait together: the busier the store, the less an
// operation costs. A worker never waits for more operations to come. It is a goroutine that ends when the queue is
// empty.
type Workers[Op any] struct {
	// Run runs operations together, and returns those that need another step.
	Run func([]Op) (again []Op)
	// Limit is how many workers there may be while some are held up.
	Limit int

	mu     sync.Mutex
	max    int // workers at once, with one more for each that is held up
	queue  []Op
	open   int  // workers that run
	single []Op // operations that wait to run apart
	apart  int  // goroutines that run those, one at a time each
	closed bool
	idle   sync.Cond // signalled when a worker ends
}

// NewWorkers returns up to n workers, and up to limit while some are held up.
func NewWorkers[Op any](n, limit int, run func([]Op) []Op) *Workers[Op] {
	w := &Workers[Op]{Run: run, max: n, Limit: limit}
	w.idle.L = &w.mu
	return w
}

// Submit has an operation run soon. It returns false after Close.
func (w *Workers[Op]) Submit(op Op) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	if w.open >= w.max {
		w.queue = append(w.queue, op)
		return true
	}
	w.open++
	go w.work([]Op{op})
	return true
}

// work runs ops; then those of them that need another step, together with what waits in the queue by then.
func (w *Workers[Op]) work(ops []Op) {
	for len(ops) > 0 {
		again := w.runWatched(ops)
		runtime.Gosched() // callers that have just been answered may call again, and join the next batch
		ops = w.refill(again)
	}
}

// runWatched runs ops. As long as they are held up there is one worker more.
func (w *Workers[Op]) runWatched(ops []Op) (again []Op) {
	var more int
	over := false
	heldUp := time.AfterFunc(Patience, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if over || w.max >= w.Limit {
			return
		}
		more = 1
		w.max++
		if len(w.queue) > 0 {
			w.open++
			go w.work(w.take(nil))
		}
	})
	again = w.Run(ops)
	heldUp.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	over = true
	w.max -= more
	return again
}

// refill adds to ops from the queue. If there is nothing at all, or one worker too many, the worker ends.
func (w *Workers[Op]) refill(ops []Op) []Op {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(ops) > 0 || w.open <= w.max {
		ops = w.take(ops)
	}
	if len(ops) == 0 {
		w.open--
		w.idle.Broadcast()
	}
	return ops
}

// take moves operations from the queue to ops.
func (w *Workers[Op]) take(ops []Op) []Op {
	n := min(len(w.queue), max(maxBatch-len(ops), 0))
	ops = append(ops, w.queue[:n]...)
	clear(w.queue[:n])
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	return ops
}

// RunApart runs one operation apart from all others, beside the workers. Limit operations run apart at once, because
// each takes a connection: a batch of hundreds would open as many. The others wait, in the order in which they came.
func (w *Workers[Op]) RunApart(op Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.single = append(w.single, op)
	if w.apart < w.Limit {
		w.apart++
		go w.workApart()
	}
}

// workApart runs the operations that wait to run apart, one at a time, until none waits.
func (w *Workers[Op]) workApart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.single) > 0 {
		op := w.single[:1:1]
		w.single = w.single[1:]
		w.mu.Unlock()
		again := w.Run(op)
		w.mu.Lock()
		w.single = append(w.single, again...)
	}
	w.single = nil
	w.apart--
	w.idle.Broadcast()
}

// Close lets what has been submitted end, and refuses anything more.
func (w *Workers[Op]) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for w.open+w.apart > 0 {
		w.idle.Wait()
	}
}

// State is what the workers do at the moment: how many run and how many operations wait in the queue, how many may run,
// and whether Close was called.
func (w *Workers[Op]) State() (running, queued, most int, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open, len(w.queue), w.max, w.closed
}

// Rest waits for as long as the server was busy with a part of a sweep, so that sweeping takes half of its time at
// most.
func Rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
