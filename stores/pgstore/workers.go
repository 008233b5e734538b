package pgstore

import (
	"runtime"
	"sync"
	"time"
)

const (
	// maxBatch is how many operations share one transaction at most.
	maxBatch = 512
	// patience is how long a batch may take before another worker runs in place of the one that is held up: it waits
	// for a row that another transaction has locked, and the operations in the queue need other rows.
	patience = time.Second
)

// workers run operations, each with one connection at a time. An operation starts at once if a worker is free.
// Otherwise it waits in the queue, and a worker takes all that wait together: the busier the store, the less an
// operation costs. A worker never waits for more operations to come. It is a goroutine that ends when the queue is
// empty.
type workers struct {
	run   func([]operation) (again []operation)
	limit int // max may not exceed it

	mu     sync.Mutex
	max    int // workers at once, with one more for each that is held up
	queue  []operation
	open   int // workers that run
	apart  int // operations that run beside the workers
	closed bool
	idle   sync.Cond // signalled when a worker ends
}

// newWorkers returns up to n workers, and up to limit while some are held up.
func newWorkers(n, limit int, run func([]operation) []operation) *workers {
	w := &workers{run: run, max: n, limit: limit}
	w.idle.L = &w.mu
	return w
}

func (w *workers) submit(op operation) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	if w.open >= w.max {
		w.queue = append(w.queue, op)
		return nil
	}
	w.open++
	go w.work([]operation{op})
	return nil
}

// work runs ops; then those of them that need another step, together with what waits in the queue by then.
func (w *workers) work(ops []operation) {
	for len(ops) > 0 {
		again := w.runWatched(ops)
		runtime.Gosched() // callers that have just been answered may call again, and join the next batch
		ops = w.refill(again)
	}
}

// runWatched runs ops. As long as they are held up there is one worker more.
func (w *workers) runWatched(ops []operation) (again []operation) {
	var more int
	over := false
	heldUp := time.AfterFunc(patience, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if over || w.max >= w.limit {
			return
		}
		more = 1
		w.max++
		if len(w.queue) > 0 {
			w.open++
			go w.work(w.take(nil))
		}
	})
	again = w.run(ops)
	heldUp.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	over = true
	w.max -= more
	return again
}

// refill adds to ops from the queue. If there is nothing at all, or one worker too many, the worker ends.
func (w *workers) refill(ops []operation) []operation {
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
func (w *workers) take(ops []operation) []operation {
	n := min(len(w.queue), max(maxBatch-len(ops), 0))
	ops = append(ops, w.queue[:n]...)
	clear(w.queue[:n])
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	return ops
}

// runApart runs one operation apart from all others, beside the workers.
func (w *workers) runApart(op operation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apart++
	go func() {
		for ops := []operation{op}; len(ops) > 0; {
			ops = w.run(ops)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.apart--
		w.idle.Broadcast()
	}()
}

// close lets what has been submitted end, and refuses anything more.
func (w *workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for w.open+w.apart > 0 {
		w.idle.Wait()
	}
}
