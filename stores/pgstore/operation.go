package pgstore

import (
	"context"
	"sync/atomic"

	"github.com/retrysafe/retrysafe"
)

// operation is one call of a Store that waits for its turn in a batch. Some take more than one turn.
type operation interface {
	base() *turn
	// join puts the operation into the batch. It reports false if that has to wait for the next batch, because there is
	// one of the same key.
	join(b *batch) bool
	// settle takes note of what the batch has answered, once that is committed. It reports false if the operation needs
	// another turn.
	settle() bool
}

// turn is what all operations have.
type turn struct {
	digest retrysafe.Digest
	err    error
	done   chan struct{}
	// gone is set when the caller waits no longer; in is the batch that has the operation meanwhile.
	gone atomic.Bool
	in   atomic.Pointer[flight]
}

func newTurn(k retrysafe.Key) turn {
	return turn{digest: k.Digest(), done: make(chan struct{})}
}

func (t *turn) base() *turn { return t }

// key is the first value of every row.
func (t *turn) key() *uuid { return (*uuid)(&t.digest) }

// fail ends the operation with an error.
func (t *turn) fail(err error) {
	t.err = err
	close(t.done)
}

// flight is a batch that is under way. It is given up when all those who wait for it have gone.
type flight struct {
	cancel  context.CancelFunc
	waiting atomic.Int64
}

func (f *flight) leave() {
	if f.waiting.Add(-1) == 0 {
		f.cancel()
	}
}

// do has the operation done by a worker. If ctx ends first, do returns its error, and whether anything has happened is
// unknown, as it is when a connection breaks: ask again.
func (s *Store) do(ctx context.Context, op operation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := op.base()
	if err := s.workers.submit(op); err != nil {
		return err
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		t.gone.Store(true)
		if f := t.in.Swap(nil); f != nil {
			f.leave()
		}
		return ctx.Err()
	}
}
