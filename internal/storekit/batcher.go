package storekit

import (
	"context"
	"time"
)

// Batcher takes the operations of many callers to a database server in batches. Its workers decide which operations
// share a batch. If the batch fails because of one of them, or of somebody else's lock, each still gets its own answer.
type Batcher[O Operation] struct {
	Server[O]
	Workers *Workers[O]
}

// Server is what a store tells a Batcher of its database server.
type Server[O Operation] struct {
	Steps Steps
	// Send takes the steps of a batch and reads the answers. If it returns nil they are committed.
	Send func(ctx context.Context, b *Batch[O]) error
	// Timeout is how long Send may take.
	Timeout time.Duration
	// ShortLockWaits says that the store has the server end each wait for a locked row after Patience. An operation that
	// is alone in its batch then waits again, after the others that run apart, until Timeout. Otherwise it fails, because
	// its role has such a limit.
	ShortLockWaits bool
	// Fault says what an error of Send means.
	Fault func(err error) Fault
	// Reconnect is called after the Fault Disconnected. It returns how often the batch may be sent again: once, and once
	// more for each other connection that may be broken too.
	Reconnect func() (tries int)
	// Remedy returns nil if an operation may succeed when it is sent again after err, and an error otherwise.
	Remedy func(err error) error
	// Explain adds to an error what to do about it.
	Explain func(err error) error
	// Closed is the error of calls after Close.
	Closed error
}

// Fault is what has become of a batch that has failed.
type Fault int

const (
	// Refused says that the server has refused one of the statements.
	Refused Fault = iota
	// RowLocked says that a statement has waited for too long for a row that another transaction holds.
	RowLocked
	// Disconnected says that the connection was broken, or broke.
	Disconnected
	// Unanswered says that the time was over, or that the server as a whole has failed.
	Unanswered
)

// maxTries is how often an operation is sent that the server refused because of others.
const maxTries = 5

// NewBatcher returns a Batcher with as many workers as NewWorkers says.
func NewBatcher[O Operation](workers, limit int, s Server[O]) *Batcher[O] {
	b := &Batcher[O]{Server: s}
	b.Workers = NewWorkers(workers, limit, b.run)
	return b
}

// Do has a worker run the operation. If ctx ends first, Do returns its error, and whether anything has happened is
// unknown, as it is when a connection breaks: the caller repeats the call to find out.
func (b *Batcher[O]) Do(ctx context.Context, op O) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !b.Workers.Submit(op) {
		return b.Closed
	}
	return op.Base().wait(ctx)
}

// run takes operations to the database, and returns those that need another step.
func (b *Batcher[O]) run(ops []O) (again []O) {
	batch := newBatch[O](b.Steps)
	for _, op := range ops {
		if !op.Base().gone.Load() && !batch.add(op) {
			again = append(again, op)
		}
	}
	if len(batch.Ops) == 0 {
		return again
	}
	err := b.sendUntilConnected(batch)
	if err == nil {
		return append(again, batch.settle()...)
	}
	switch fault := b.Fault(err); {
	case len(batch.Ops) == 1, fault == Disconnected, fault == Unanswered:
		for _, op := range batch.Ops {
			again = append(again, b.runAlone(op, err)...)
		}
	case fault == RowLocked:
		for _, op := range batch.Ops {
			b.Workers.RunApart(op)
		}
	default: // one of them is to blame: each gets its own answer
		for _, op := range batch.Ops {
			again = append(again, b.runAlone(op, nil)...)
		}
	}
	return again
}

// sendUntilConnected sends a batch again if its connection was broken before, as may be all that there are, or if the
// server has restarted.
func (b *Batcher[O]) sendUntilConnected(batch *Batch[O]) error {
	err := b.send(batch)
	if err == nil || b.Fault(err) != Disconnected {
		return err
	}
	for tries := b.Reconnect(); tries > 0 && err != nil && b.Fault(err) == Disconnected; tries-- {
		err = b.send(batch.anew())
	}
	return err
}

// runAlone sends an operation in a batch of its own until it has succeeded, or has failed with an error that does not
// pass. err is what it has failed with so far; nil: nothing.
func (b *Batcher[O]) runAlone(op O, err error) (again []O) {
	for tries := 0; tries < maxTries; tries++ {
		if err != nil && b.Fault(err) == RowLocked {
			if left, more := op.LeaveHeld(); more {
				return []O{op}
			} else if left {
				op.Base().end()
				return nil
			}
			if b.ShortLockWaits && op.Base().mayWait(b.Timeout) {
				b.Workers.RunApart(op)
				return nil
			}
		}
		if err != nil {
			if err = b.Remedy(err); err != nil {
				break
			}
		}
		batch := newBatch[O](b.Steps)
		batch.add(op)
		if err = b.send(batch); err == nil {
			return batch.settle()
		}
	}
	op.Base().fail(b.Explain(err))
	return nil
}

// send sends the batch, until all its callers have gone.
func (b *Batcher[O]) send(batch *Batch[O]) error {
	ctx, cancel := context.WithTimeout(context.Background(), b.Timeout)
	defer cancel()
	newFlight(batch.Ops, cancel)
	return b.Send(ctx, batch)
}
