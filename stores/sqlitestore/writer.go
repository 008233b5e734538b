package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/retrysafe/retrysafe"
)

const (
	// maxQueued is how many operations wait for the writer before further callers wait for a place in the queue.
	maxQueued = 1024
	// maxBatch is how many operations share one transaction, and one sync, at most.
	maxBatch = 512
)

// writer owns the one connection that writes. Its goroutine takes all operations that wait and commits them with one
// sync. While that runs, the next ones gather: the busier the store, the fewer syncs an operation costs. It never
// waits for more operations to come.
type writer struct {
	path  string
	conn  *sql.Conn
	run   *connRunner
	clock *clock
	// saved is told what a transaction has done, once it is on disk.
	saved func(*session)

	// fence is the highest ever given out; marked is what retrysafe_meta says of it. Only the goroutine uses them.
	fence, marked int64

	queue   chan *operation
	closing chan struct{}
	closed  chan struct{}
	lent    atomic.Pointer[retrysafe.Lease] // who has the connection; nil: the goroutine
}

// operation is a change that waits for the writer, or for its commit.
type operation struct {
	// do makes the change. It may be called again after a rollback, and must not wait for anything.
	do func(*session) error
	// borrower, instead of do, has the connection to itself from done until it closes back.
	borrower *retrysafe.Lease
	back     chan struct{}
	state    atomic.Int32
	err      error
	done     chan struct{}
}

const (
	queued int32 = iota
	taken
	withdrawn
)

// session is one transaction of the writer.
type session struct {
	runner
	now     instant
	w       *writer
	fence   int64 // the highest given out, this transaction included
	mark    bool  // fence must be saved: no row says how high it is
	changed []retrysafe.Digest
	// deadlines are those of records that are new, or that have ended.
	deadlines []deadline
}

// deadline says when there is something to sweep of a record.
type deadline struct {
	id  int64
	due instant
}

func (w *writer) start() {
	w.queue = make(chan *operation, maxQueued)
	w.closing, w.closed = make(chan struct{}), make(chan struct{})
	go w.loop()
}

// stop commits what is queued and ends the goroutine.
func (w *writer) stop() {
	close(w.closing)
	<-w.closed
}

// write makes a change and returns once it is on disk. If ctx ends first, the change is withdrawn, unless it is being
// written already: then write waits for the answer.
func (w *writer) write(ctx context.Context, do func(*session) error) error {
	return w.submit(ctx, &operation{do: do, done: make(chan struct{})})
}

func (w *writer) submit(ctx context.Context, op *operation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.lent.Load() != nil && ctx.Value(borrowedKey{}) == w {
		return ErrInsideTransaction
	}
	select {
	case w.queue <- op:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.closing:
		return ErrClosed
	}
	select {
	case <-op.done:
		return op.err
	case <-ctx.Done():
		if op.state.CompareAndSwap(queued, withdrawn) {
			return ctx.Err()
		}
	case <-w.closed:
		if op.state.CompareAndSwap(queued, withdrawn) {
			return ErrClosed
		}
	}
	<-op.done
	return op.err
}

// borrowedKey marks the context of a function that has the connection.
type borrowedKey struct{}

func (w *writer) loop() {
	defer close(w.closed)
	batch := make([]*operation, 0, maxBatch)
	for {
		select {
		case op := <-w.queue:
			batch = w.gather(append(batch[:0], op))
			w.serve(batch)
		case <-w.closing:
			for batch = w.gather(batch[:0]); len(batch) > 0; batch = w.gather(batch[:0]) {
				w.serve(batch)
			}
			return
		}
	}
}

// gather adds to batch what waits, without waiting.
func (w *writer) gather(batch []*operation) []*operation {
	for len(batch) < maxBatch {
		select {
		case op := <-w.queue:
			batch = append(batch, op)
		default:
			return batch
		}
	}
	return batch
}

// serve commits the operations in their order, those between two borrowers together.
func (w *writer) serve(batch []*operation) {
	taking := batch[:0]
	for _, op := range batch {
		if !op.state.CompareAndSwap(queued, taken) {
			continue
		}
		if op.borrower == nil {
			taking = append(taking, op)
			continue
		}
		w.commit(taking)
		taking = taking[:0]
		w.lend(op)
	}
	w.commit(taking)
}

// lend waits until the borrower is done. It has the connection at once, and operations queue up behind it.
func (w *writer) lend(op *operation) {
	w.lent.Store(op.borrower)
	close(op.done)
	<-op.back
	w.lent.Store(nil)
}

// borrow waits for the connection, and returns the function that gives it back. To call that twice is harmless.
func (w *writer) borrow(ctx context.Context, l retrysafe.Lease) (back func(), err error) {
	op := &operation{borrower: &l, back: make(chan struct{}), done: make(chan struct{})}
	if err := w.submit(ctx, op); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { close(op.back) }), nil
}

// lentTo reports whether the attempt that l names has the connection.
func (w *writer) lentTo(l retrysafe.Lease) bool {
	borrower := w.lent.Load()
	return borrower != nil && *borrower == l
}

// commit writes the operations in one transaction, and answers each. If one of them fails for good, or the
// transaction does, each is written again in a transaction of its own, so that it gets its own answer: operations can
// be repeated, even if the transaction is on disk after all.
func (w *writer) commit(ops []*operation) {
	if len(ops) == 0 {
		return
	}
	err := w.transact(ops)
	if err != nil && len(ops) > 1 {
		for _, op := range ops {
			w.answer(op, w.transact([]*operation{op}))
		}
		return
	}
	for _, op := range ops {
		w.answer(op, err)
	}
}

func (w *writer) answer(op *operation, err error) {
	if err != nil {
		op.err = explain(w.path, err)
	}
	close(op.done)
}

// transact runs the operations in one transaction. It returns nil once that is on disk, and sets op.err to what
// operations answer, such as ErrLeaseLost. Otherwise nothing has changed.
func (w *writer) transact(ops []*operation) (err error) {
	var s *session
	rawErr := w.conn.Raw(func(any) error {
		s, err = w.attempt(ops)
		return nil // the connection stays good
	})
	if err = errors.Join(err, rawErr); err != nil {
		return err
	}
	w.fence = s.fence
	if s.mark {
		w.marked = s.fence
	}
	w.saved(s)
	return nil
}

func (w *writer) attempt(ops []*operation) (*session, error) {
	if _, err := w.run.exec("begin"); err != nil {
		return nil, err
	}
	s := &session{runner: w.run, now: w.clock.now(), w: w, fence: w.fence}
	for _, op := range ops {
		op.err = op.do(s)
		if op.err != nil && !isAnswer(op.err) {
			return nil, w.rollback(op.err)
		}
	}
	if s.mark {
		if _, err := s.exec("mark_fence", s.fence); err != nil {
			return nil, w.rollback(err)
		}
	}
	if _, err := w.run.exec("commit"); err != nil {
		return nil, w.rollback(err)
	}
	return s, nil
}

// rollback returns why, and what else went wrong. After some errors SQLite has rolled back already.
func (w *writer) rollback(why error) error {
	if _, err := w.run.exec("rollback"); err != nil && !isNoTransaction(err) {
		return fmt.Errorf("%w; then rollback: %w", why, err)
	}
	return why
}

// isAnswer tells what an operation has found out from a failure of the store.
func isAnswer(err error) bool { return errors.Is(err, retrysafe.ErrLeaseLost) }

// nextFence returns a number higher than any before.
func (s *session) nextFence() int64 {
	s.fence = max(s.fence+1, s.now)
	return s.fence
}
