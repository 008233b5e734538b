package storekit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Step is what an operation does in a batch, usually with one statement. Each store numbers its own, in the order in
// which a batch takes them.
type Step uint8

// Operation is one call of a method of a store. It takes a step in a batch. Most have their answer then. Others take
// another step in the next batch of the same worker, which costs a round trip and no wait in the queue.
type Operation interface {
	// Base is what all operations have. Embedding a Call provides it, and LeaveHeld.
	Base() *Call
	// Begin forgets what an earlier step, or the same step in a transaction that was lost, has answered.
	Begin()
	// Next reads what the step has answered, once the batch is committed, and chooses the next step. It reports false if
	// the operation has its answer.
	Next() (more bool)
	// LeaveHeld is called when the step has waited for too long for a row that another transaction holds. It reports
	// false if the operation has to wait on. Otherwise it has its answer, or with more, another step to take.
	LeaveHeld() (left, more bool)
}

// Call is the part of an operation that every store needs.
type Call struct {
	Digest retrysafe.Digest
	Step   Step
	// SentAgain says that a step was sent more than once: the server may receive the first copy later.
	SentAgain bool
	// Err is what the caller gets.
	Err error

	done chan struct{}
	// gone is set when the caller waits no longer; in is the batch that the operation is in.
	gone atomic.Bool
	in   atomic.Pointer[flight]
	// waitUntil is when the operation stops waiting for locked rows; zero before it has found one.
	waitUntil time.Time
}

// NewCall returns what an operation on a key begins with.
func NewCall(k retrysafe.Key, first Step) Call {
	return Call{Digest: k.Digest(), Step: first, done: make(chan struct{})}
}

// Base implements Operation.
func (c *Call) Base() *Call { return c }

// LeaveHeld implements Operation for operations that wait until the row is free.
func (c *Call) LeaveHeld() (left, more bool) { return false, false }

// ContinueWith has the operation take another step. It returns true, for Next.
func (c *Call) ContinueWith(s Step) (more bool) {
	c.Step = s
	return true
}

// mayWait reports whether the operation may wait on for a locked row, for which it began to wait less than timeout ago.
func (c *Call) mayWait(timeout time.Duration) bool {
	if c.waitUntil.IsZero() {
		c.waitUntil = time.Now().Add(timeout)
	}
	return time.Now().Before(c.waitUntil)
}

// end gives the caller its answer.
func (c *Call) end() { close(c.done) }

// fail ends the operation with an error.
func (c *Call) fail(err error) {
	c.Err = err
	c.end()
}

// wait returns the operation's error. If ctx ends first, it returns that of ctx.
func (c *Call) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.Err
	case <-ctx.Done():
		c.gone.Store(true)
		if f := c.in.Swap(nil); f != nil {
			f.leave()
		}
		return ctx.Err()
	}
}

// flight is a batch that has been sent. It is canceled when all callers that wait for it have gone.
type flight struct {
	cancel  context.CancelFunc
	waiting atomic.Int64
}

// newFlight has operations share a flight. A caller may have gone already.
func newFlight[O Operation](ops []O, cancel context.CancelFunc) {
	f := &flight{cancel: cancel}
	f.waiting.Store(int64(len(ops)))
	for _, op := range ops {
		c := op.Base()
		c.in.Store(f)
		if c.gone.Load() && c.in.CompareAndSwap(f, nil) {
			f.leave()
		}
	}
}

func (f *flight) leave() {
	if f.waiting.Add(-1) == 0 {
		f.cancel()
	}
}
