package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Extend makes the lease run for d from now, even if it has already run out.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	c := newChange(l)
	return s.underLease(ctx, "extend", c, func(t *writeTx) error {
		until := t.now + storekit.Micros(d)
		id, err := c.pending(t, t.now, "extend", c.values(until))
		if err == nil && until <= t.now {
			t.wake(c.digest)
			t.deadlines = append(t.deadlines, deadline{id, until}) // earlier than the claim said
		}
		return err
	})
}

// Checkpoint saves one step's result under the lease. If the step's name is already saved, the first result stays.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended, and ErrResultTooLarge
// for more than 256 MiB.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	if s.writer.heldBy(l) {
		return fmt.Errorf("checkpoint %s: %w", l.Key, ErrInsideTransaction)
	}
	if err := storekit.CheckSize(len(step.Data), storekit.MaxContent); err != nil {
		return fmt.Errorf("checkpoint %s: %w", l.Key, err)
	}
	c := newChange(l)
	return s.underLease(ctx, "checkpoint", c, func(t *writeTx) error { return c.saveStep(t, t.now, step) })
}

// saveStep saves a step if the lease holds and there is none of that name.
func (c change) saveStep(run runner, now instant, step retrysafe.StepResult) error {
	r, err := c.find(run, now)
	switch {
	case err != nil:
		return err
	case r == nil || !r.PendingUnder(c.lease):
		return retrysafe.ErrLeaseLost
	}
	return addStep(run, r, step)
}

// addStep adds a step to a record unless there is one of that name.
func addStep(run runner, r *record, step retrysafe.StepResult) error {
	added, err := run.exec("insert_step", r.id(), r.steps+1, blob(step.Name), step.Data)
	if added == 0 || err != nil {
		return err
	}
	_, err = run.exec("count_step", r.id())
	return err
}

// Complete saves the result and ends the attempt, even if its lease has run out. When this lease has already completed,
// the first result stays. It returns ErrLeaseLost if another attempt has taken the key over, or if this one has
// released it, and ErrResultTooLarge for more than 256 MiB.
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	if err := storekit.CheckSize(len(r.Meta)+len(r.Body), storekit.MaxContent); err != nil {
		return fmt.Errorf("complete %s: %w", l.Key, err)
	}
	e := newCompletion(l, r, keep)
	return s.underLease(ctx, "complete", e.change, e.write)
}

// Release gives the key up at once, without a result: for any request if no steps were saved, for the same request if
// there are any. It returns ErrLeaseLost if another attempt has the key, or if this one has completed.
func (s *Store) Release(ctx context.Context, l retrysafe.Lease) error {
	c := newChange(l)
	return s.underLease(ctx, "release", c, func(t *writeTx) error {
		r, err := c.find(t, t.now)
		switch {
		case err != nil:
			return err
		case r == nil || r.State == retrysafe.Released:
			return nil // no attempt has it
		case !r.PendingUnder(l):
			return retrysafe.ErrLeaseLost
		}
		t.wake(c.digest)
		if r.steps == 0 {
			return t.delete(r)
		}
		t.deadlines = append(t.deadlines, deadline{r.id(), t.now + r.Keep.Key})
		_, err = t.exec("release", r.id(), t.now)
		return err
	})
}

// change is a write under a lease.
type change struct {
	lease  retrysafe.Lease
	digest retrysafe.Digest
}

func newChange(l retrysafe.Lease) change { return change{lease: l, digest: l.Key.Digest()} }

func (s *Store) underLease(ctx context.Context, verb string, c change, do func(*writeTx) error) error {
	if err := s.writer.write(ctx, do); err != nil {
		return fmt.Errorf("%s %s: %w", verb, c.lease.Key, err)
	}
	return nil
}

// find returns the live record of the lease's key, whichever attempt has it; nil if there is none.
func (c change) find(run runner, now instant) (*record, error) {
	r, err := find(run, c.digest, noBody)
	if err != nil || r == nil || r.Expired(now) {
		return nil, err
	}
	return r, nil
}

// pending runs a statement that changes the record if the lease holds, and returns the record's id; otherwise it
// returns ErrLeaseLost. A first attempt finds its row without the index: its fence is the row's id.
func (c change) pending(run runner, now instant, q query, values []driver.Value) (id int64, err error) {
	l, id, at := c.lease, c.lease.Fence, len(values)-2
	for range 2 {
		values[at], values[at+1] = id, now
		n, err := run.exec(q, values...)
		if n > 0 || err != nil {
			return id, err
		}
		r, err := c.find(run, now)
		if err != nil {
			return 0, err
		}
		if r == nil || r.id() == id || !r.PendingUnder(l) {
			break
		}
		id = r.id()
	}
	return 0, retrysafe.ErrLeaseLost
}

// values are those of a statement for pending: what it sets, the lease, and room for two that pending fills in.
func (c *change) values(set ...driver.Value) []driver.Value {
	return append(set, c.digest[:], c.lease.Fence, c.lease.Owner[:], nil, nil)
}

// completion is one call of Complete. It is made before the writer's goroutine runs it, because all operations wait
// for that.
type completion struct {
	change
	keep  storekit.Keep
	bytes int64 // of the result
	set   []driver.Value
}

func newCompletion(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) *completion {
	k := storekit.NewKeep(keep)
	e := &completion{change: newChange(l), keep: k, bytes: int64(len(r.Meta) + len(r.Body))}
	e.set = e.values(nil, int64(r.State()), k.Replay, k.Key, k.Audit, int64(r.Code), btoi(r.Omitted), r.Meta, r.Body)
	return e
}

// write saves the result, unless this lease has done so before.
func (e *completion) write(t *writeTx) error {
	id, err := e.save(t, t.now)
	if err == nil {
		t.wake(e.digest)
		t.w.adaptRoom(e.bytes)
		t.deadlines = append(t.deadlines, deadline{id, t.now + e.keep.Audit})
	}
	if !errors.Is(err, retrysafe.ErrLeaseLost) {
		return err
	}
	r, err := e.find(t, t.now)
	if err == nil && (r == nil || !r.State.Ended() || !r.ClaimedUnder(e.lease)) {
		return retrysafe.ErrLeaseLost
	}
	return err
}

// save saves the result if the lease is pending, and returns the record's id.
func (e *completion) save(run runner, now instant) (id int64, err error) {
	e.set[0] = now
	return e.pending(run, now, "complete", e.set)
}
