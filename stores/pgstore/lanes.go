package pgstore

import (
	"runtime"
	"sync"
	"time"
)

const (
	// maxBatch is how many operations share one transaction at most.
	maxBatch = 512
	// patience is how long a batch may take before another lane stands in for the one that it is in: it waits for a row that
	// somebody's transaction holds, and those behind it do not want that row.
	patience = time.Second
)

// lanes carry operations to the database, each with one connection at a time. An operation goes at once if a lane is free;
// otherwise it waits with others, and they go together: the busier the store, the less an operation costs, and
// nothing ever waits for more to come. A lane is a goroutine that ends when nothing waits.
type lanes struct {
	run   func([]operation) (again []operation)
	limit int // to max

	mu     sync.Mutex
	max    int // lanes at once: those that are held up are made up for
	queue  []operation
	open   int // lanes that run
	apart  int // operations that go without one
	closed bool
	idle   sync.Cond // signalled when a lane ends
}

// newLanes returns n lanes that may become up to limit while some are held up.
func newLanes(n, limit int, run func([]operation) []operation) *lanes {
	l := &lanes{run: run, max: n, limit: limit}
	l.idle.L = &l.mu
	return l
}

func (l *lanes) submit(op operation) error {
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
	go l.drive([]operation{op})
	return nil
}

// drive carries ops, what of them needs another turn, and what waits meanwhile.
func (l *lanes) drive(ops []operation) {
	for len(ops) > 0 {
		again := l.carry(ops)
		runtime.Gosched() // those who have just got their answer may ask again, and come along
		ops = l.board(again)
	}
}

// carry runs ops. As long as they are held up there is one lane more.
func (l *lanes) carry(ops []operation) (again []operation) {
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
			go l.drive(l.take(nil))
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

// board adds to ops from the queue. If there is nothing at all, or one lane too many, the lane ends.
func (l *lanes) board(ops []operation) []operation {
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
func (l *lanes) take(ops []operation) []operation {
	n := min(len(l.queue), max(maxBatch-len(ops), 0))
	ops = append(ops, l.queue[:n]...)
	clear(l.queue[:n])
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil
	}
	return ops
}

// aside carries one operation apart from all others, beside the lanes.
func (l *lanes) aside(op operation) {
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
func (l *lanes) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.open+l.apart > 0 {
		l.idle.Wait()
	}
}
