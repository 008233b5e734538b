package mysqlstore

import (
	"context"
	"sync/atomic"

	"github.com/retrysafe/retrysafe"
)

// step is what an operation does in a batch.
type step uint8

const (
	stepChange step = iota // locks the key's row, and decides what becomes of it
	stepInsert             // takes a key that has no record
	stepFind               // reads the record
	stepCount
)

// operation is one call of a method of Store. It takes a step in a batch. Most have their answer then. Others take
// another step in the next batch of the same worker, which costs a round trip and no wait in the queue.
type operation interface {
	base() *call
	// insertRow is what stepInsert adds to its statement.
	insertRow() []any
	// decide is stepChange: it reads the row that has been locked, changes it, and adds what is to be written to w. r is
	// nil if the key has no row. It may be called again for another transaction, if this one fails.
	decide(r *record, w *writes)
	// next reads what the step has found, once the batch is committed, and chooses the next step. It reports false if
	// the operation has its answer.
	next() (more bool)
}

// call is what all operations have.
type call struct {
	digest retrysafe.Digest
	step   step

	// What the step has answered.
	triedAt  instant // when stepInsert tried to insert a row
	inserted bool    // it has; otherwise it may have, which stepFind shows
	found    *record // what stepFind has read; nil: there is no record

	// sentAgain says that the step was sent more than once: the server may receive the first copy later.
	sentAgain bool

	err  error
	done chan struct{}
	// gone is set when the caller waits no longer; in is the batch that the operation is in.
	gone atomic.Bool
	in   atomic.Pointer[flight]
}

func newCall(k retrysafe.Key, first step) call {
	return call{digest: k.Digest(), step: first, done: make(chan struct{})}
}

func (c *call) base() *call { return c }

func (c *call) insertRow() []any { return nil }

// continueWith has the operation take another step.
func (c *call) continueWith(s step) (more bool) {
	c.step = s
	return true
}

// fail ends the operation with an error.
func (c *call) fail(err error) {
	c.err = err
	close(c.done)
}

// flight is a batch that has been sent. It is canceled when all callers that wait for it have gone.
type flight struct {
	cancel  context.CancelFunc
	waiting atomic.Int64
}

func (f *flight) leave() {
	if f.waiting.Add(-1) == 0 {
		f.cancel()
	}
}

// do has a worker run the operation. If ctx ends first, do returns its error, and whether anything has happened is
// unknown, as it is when a connection breaks: the caller repeats the call to find out.
func (s *Store) do(ctx context.Context, op operation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := op.base()
	if !s.workers.Submit(op) {
		return ErrClosed
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		c.gone.Store(true)
		if f := c.in.Swap(nil); f != nil {
			f.leave()
		}
		return ctx.Err()
	}
}
