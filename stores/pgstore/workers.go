package pgstore

import (
	"runtime"
	"sync"
	"time"
)

const (
	// maxBatch is how many operations share one transaction at most.
	maxBatch = 512
	// patience is how long a batch may take before another worker stands in for the one that it is in: it waits for a row that
	// somebody's transaction holds, and those behind it do not want that row.
	patience = time.Second
)

// workers carry operations to the database, each with one connection at a time. An operation goes at once if a worker is free;
// otherwise it waits with others, and they go together: the busier the store, the less an operation costs, and
// nothing ever waits for more to come. A worker is a goroutine that ends when nothing waits.
type workers struct {
	run   func([]operation) (again []operation)
	limit int // to max

	mu     sync.Mutex
	max    int // workers at once: those that are held up are made up for
	queue  []operation
	open   int // workers that run
	apart  int // operations that go without one
	closed bool
	idle   sync.Cond // signalled when a worker ends
}

// newWorkers returns n workers that may become up to limit while some are held up.
func newWorkers(n, limit int, run func([]operation) []operation) *workers {
	l := &workers{run: run, max: n, limit: limit}
	l.idle.L = &l.mu
	return l
}

func (l *workers) submit(op operation) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if l.open >= l.max {
		l.queue = append(l.queue, op)
		return nil
	}
	l.open++
	go l.work([]operation{op})
	return nil
}

// work runs ops, what of them needs another turn, and what waits meanwhile.
func (l *workers) work(ops []operation) {
	for len(ops) > 0 {
		again := l.runWatched(ops)
		runtime.Gosched() // those who have just got their answer may ask again, and come along
		ops = l.refill(again)
	}
}

// runWatched runs ops. As long as they are held up there is one worker more.
func (l *workers) runWatched(ops []operation) (again []operation) {
	var more int
	over := false
	heldUp := time.AfterFunc(patience, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if over || l.max >= l.limit {
			return
		}
		more = 1
		l.max++
		if len(l.queue) > 0 {
			l.open++
			go l.work(l.take(nil))
		}
	})
	again = l.run(ops)
	heldUp.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	over = true
	l.max -= more
	return again
}

// refill adds to ops from the queue. If there is nothing at all, or one worker too many, the worker ends.
func (l *workers) refill(ops []operation) []operation {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(ops) > 0 || l.open <= l.max {
		ops = l.take(ops)
	}
	if len(ops) == 0 {
		l.open--
		l.idle.Broadcast()
	}
	return ops
}

// take moves operations from the queue to ops.
func (l *workers) take(ops []operation) []operation {
	n := min(len(l.queue), max(maxBatch-len(ops), 0))
	ops = append(ops, l.queue[:n]...)
	clear(l.queue[:n])
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil
	}
	return ops
}

// runApart runs one operation apart from all others, beside the workers.
func (l *workers) runApart(op operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apart++
	go func() {
		for ops := []operation{op}; len(ops) > 0; {
			ops = l.run(ops)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.apart--
		l.idle.Broadcast()
	}()
}

// close lets what has been submitted end, and refuses anything more.
func (l *workers) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.open+l.apart > 0 {
		l.idle.Wait()
	}
}
