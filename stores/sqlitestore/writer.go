package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/retrysafe/retrysafe"
)

// maxBatch is how many operations share one transaction, and one sync, at most.
const maxBatch = 512

// maxRoom is how many bytes a claim leaves at most for the result: see writer.room.
const maxRoom = 1024

// writer owns the one connection that writes. Its goroutine takes all operations that wait, and commits them with one
// sync. Meanwhile the next ones gather: the busier the store, the fewer syncs an operation costs. It never waits for
// more operations to come.
type writer struct {
	path   string
	conn   *sql.Conn
	run    *connRunner
	clock  *clock
	bounds logBounds
	// saved is called with a transaction, and how many operations it has, once it is on disk.
	saved func(t *writeTx, operations int)
	// full is called when an operation has found no space.
	full func()

	// fence is the highest ever given out; marked is what retrysafe_meta says of it. Only the goroutine uses them.
	fence, marked int64

	holder atomic.Pointer[retrysafe.Lease] // who has the connection; nil: the goroutine

	// room is how many bytes a result has had lately. A row that grows when it is completed would have to be moved, and
	// others with it: claims leave that much space. Only the goroutine uses it.
	room int64

	mu      sync.Mutex
	queue   []*operation // what waits, in the order in which it came
	stopped bool         // nothing more may come

	wake   chan struct{} // holds a value if there is something to see in the queue
	closed chan struct{}
}

// operation is a change that waits for the writer, or for its commit.
type operation struct {
	// do makes the change. It may be called again after a rollback, and must not wait for anything.
	do func(*writeTx) error
	// holder, instead of do, has the connection to itself from done until it closes back.
	holder *retrysafe.Lease
	back   chan struct{}
	err    error
	done   chan struct{}
}

// writeTx is one transaction of the writer.
type writeTx struct {
	runner
	now     instant
	w       *writer
	fence   int64 // the highest given out, this transaction included
	mark    bool  // fence must be saved: no row says how high it is
	changed []retrysafe.Digest
	hashes  hashes
	// spaceErr is the answer of checkSpace if spaceKnown.
	spaceErr   error
	spaceKnown bool
	// deadlines are those of records that are new, or that have ended.
	deadlines []deadline
}

// deadline says when there is something to sweep of a record.
type deadline struct {
	id  int64
	due instant
}

func (w *writer) start() {
	w.wake, w.closed = make(chan struct{}, 1), make(chan struct{})
	go w.loop()
}

// stop commits what is queued and ends the goroutine.
func (w *writer) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.signal()
	<-w.closed
}

// context returns a context that ends when the writer has stopped.
func (w *writer) context() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-w.closed
		cancel()
	}()
	return ctx, cancel
}

// write makes a change and returns once it is on disk. If ctx ends first, the change is withdrawn, unless it is being
// written already: then write waits for the answer.
func (w *writer) write(ctx context.Context, do func(*writeTx) error) error {
	return w.submit(ctx, &operation{do: do, done: make(chan struct{})})
}

func (w *writer) submit(ctx context.Context, op *operation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.holder.Load() != nil && ctx.Value(holderKey{}) == w {
		return ErrInsideTransaction
	}
	if err := w.enqueue(op); err != nil {
		return err
	}
	select {
	case <-op.done:
		return op.err
	case <-ctx.Done():
		if w.withdraw(op) {
			return ctx.Err()
		}
	}
	<-op.done
	return op.err
}

func (w *writer) enqueue(op *operation) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return ErrClosed
	}
	w.queue = append(w.queue, op)
	w.signal()
	return nil
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // the goroutine has yet to see an earlier one
	}
}

// withdraw takes an operation out of the queue. It reports false if it is no longer there.
func (w *writer) withdraw(op *operation) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, op)
	if i < 0 {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	return true
}

// holderKey marks the context of a function that has the connection.
type holderKey struct{}

func (w *writer) loop() {
	defer close(w.closed)
	for range w.wake {
		for batch := w.take(nil); len(batch) > 0; batch = w.take(batch) {
			if batch[0].holder != nil {
				w.handOver(batch[0])
			} else {
				w.commit(batch)
			}
		}
		if w.ended() {
			return
		}
	}
}

// take returns what waits, in spare's memory: a holder alone, or the operations before the next one.
func (w *writer) take(spare []*operation) []*operation {
	// Callers that the last commit has answered may call again at once, and then join this batch.
	for n := -1; n < w.waiting() && n < maxBatch; runtime.Gosched() {
		n = w.waiting()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxBatch)
	if i := slices.IndexFunc(w.queue[:n], func(op *operation) bool { return op.holder != nil }); i >= 0 {
		n = max(i, 1)
	}
	clear(spare)
	spare = append(spare[:0], w.queue[:n]...)
	w.queue = slices.Delete(w.queue, 0, n)
	return spare
}

// waiting is how many operations wait.
func (w *writer) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

func (w *writer) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped && len(w.queue) == 0
}

// handOver waits until the holder is done. It has the connection at once, and operations queue up behind it.
func (w *writer) handOver(op *operation) {
	w.holder.Store(op.holder)
	close(op.done)
	<-op.back
	w.holder.Store(nil)
}

// checkOut waits for the connection, and returns the function that returns it. A second call of that does nothing.
func (w *writer) checkOut(ctx context.Context, l retrysafe.Lease) (back func(), err error) {
	op := &operation{holder: &l, back: make(chan struct{}), done: make(chan struct{})}
	if err := w.submit(ctx, op); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { close(op.back) }), nil
}

// heldBy reports whether the attempt that l names has the connection.
func (w *writer) heldBy(l retrysafe.Lease) bool {
	holder := w.holder.Load()
	return holder != nil && *holder == l
}

// commit writes the operations in one transaction, and answers each. If one of them fails for good, or the
// transaction does, each is written again in a transaction of its own, so that it gets its own answer: operations can
// be repeated, even if the transaction is on disk after all.
func (w *writer) commit(ops []*operation) {
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
	if isFull(op.err) || errors.Is(op.err, retrysafe.ErrStoreFull) {
		w.full()
	}
	close(op.done)
}

// transact runs the operations in one transaction. It returns nil once that is on disk, and sets op.err to what
// operations answer, such as ErrLeaseLost. Otherwise nothing has changed.
func (w *writer) transact(ops []*operation) (err error) {
	var s *writeTx
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
	w.saved(s, len(ops))
	return nil
}

func (w *writer) attempt(ops []*operation) (*writeTx, error) {
	if _, err := w.run.exec("begin"); err != nil {
		return nil, err
	}
	s := &writeTx{runner: w.run, now: w.clock.now(), w: w, fence: w.fence}
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
	if err := s.hashes.save(s); err != nil {
		return nil, w.rollback(err)
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

// isAnswer reports whether an error is an answer to the caller, and no failure of the store.
func isAnswer(err error) bool {
	return errors.Is(err, retrysafe.ErrLeaseLost) || errors.Is(err, retrysafe.ErrStoreFull)
}

// nextFence returns a number higher than any before.
func (s *writeTx) nextFence() int64 {
	s.fence = max(s.fence+1, s.now)
	return s.fence
}

// adaptRoom takes note of how many bytes a result has.
func (w *writer) adaptRoom(bytes int64) { w.room += (min(bytes, maxRoom) - w.room) / 4 }

// wake wakes those who watch the key once the transaction is on disk.
func (s *writeTx) wake(d retrysafe.Digest) { s.changed = append(s.changed, d) }
