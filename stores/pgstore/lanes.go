package pgstore

import (
	"sync"
)

// maxBatch is how many operations share one transaction at most.
const maxBatch = 512

// lanes carry operations to the database, each with one connection at a time. An operation goes at once if a lane is free;
// otherwise it waits with others, and they go together: the busier the store, the less an operation costs, and
// nothing ever waits for more to come. A lane is a goroutine that ends when nothing waits.
type lanes struct {
	run func([]operation) (again []operation)
	max int

	mu     sync.Mutex
	queue  []operation
	open   int // lanes that run
	closed bool
	idle   sync.Cond // signalled when a lane ends
}

func newLanes(n int, run func([]operation) []operation) *lanes {
	l := &lanes{run: run, max: n}
	l.idle.L = &l.mu
	return l
}

func (l *lanes) submit(op operation) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if l.open == l.max {
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
		ops = l.board(l.run(ops))
	}
}

// board adds to ops from the queue. If there is nothing at all, the lane ends.
func (l *lanes) board(ops []operation) []operation {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.queue), max(maxBatch-len(ops), 0))
	ops = append(ops, l.queue[:n]...)
	clear(l.queue[:n])
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil
	}
	if len(ops) == 0 {
		l.open--
		l.idle.Broadcast()
	}
	return ops
}

// close lets what has been submitted end, and refuses anything more.
func (l *lanes) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.open > 0 {
		l.idle.Wait()
	}
}
