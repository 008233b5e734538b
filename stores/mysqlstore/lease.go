package mysqlstore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Extend makes the lease run for d from now, even if it has already run out.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	values := append([]any{storekit.Micros(d)}, leaseValues(l)...)
	err := s.underLease(ctx, "extend", newExtension(l, d).directly(s.sql.extend, values...))
	if err == nil && d <= 0 {
		s.watches.Wake(l.Key.Digest())
	}
	return err
}

// EndLease has the lease of the key's claim with that fence run out now. It returns ErrLeaseLost if the claim does not
// have the key any more, and ErrNotAbandoned if a transaction holds the record.
func (s *Store) EndLease(ctx context.Context, d retrysafe.Digest, fence int64) error {
	err := s.inTransaction(ctx, func(c *conn) error {
		locked, err := s.lockRows(ctx, c, s.sql.lock, rows{{d[:]}})
		if err != nil {
			return err
		}
		r := locked[d]
		if r == nil || r.Expired(r.late) || r.State != retrysafe.Pending || r.Fence != fence {
			return retrysafe.ErrLeaseLost
		}
		r.EndsAt = min(r.EndsAt, r.late)
		var w writes
		w.change(r)
		return s.writeAll(ctx, c, &w)
	})
	if errorNumber(err) == lockWaitTimeout {
		err = storekit.ErrHeld
	}
	if err != nil {
		return fmt.Errorf("end the lease of %s: %w", d, explain(err))
	}
	return nil
}

func newExtension(l retrysafe.Lease, d time.Duration) *change {
	lasts := storekit.Micros(d)
	return newChange(l, func(r *record, w *writes) error {
		if !r.heldUnder(l) {
			return retrysafe.ErrLeaseLost
		}
		r.EndsAt = r.late + lasts
		w.change(r)
		return nil
	})
}

// Checkpoint saves one step's result under the lease. If the step's name is already saved, the first result stays.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
//
// Inside of InTx the step is saved when the transaction commits, and not otherwise.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	return s.underLease(ctx, "checkpoint", newCheckpoint(l, step.Clone()))
}

func newCheckpoint(l retrysafe.Lease, steps ...retrysafe.StepResult) *change {
	return newChange(l, func(r *record, w *writes) error {
		if !r.heldUnder(l) {
			return retrysafe.ErrLeaseLost
		}
		r.saveSteps(w, steps)
		w.change(r)
		return nil
	})
}

// saveSteps adds steps to those of the record. They are counted also if one of that name is there already: the number
// only keeps them in order.
func (r *record) saveSteps(w *writes, steps []retrysafe.StepResult) {
	for _, step := range steps {
		r.saved++
		name := sha256.Sum256([]byte(step.Name))
		w.steps = append(w.steps, []any{r.digest[:], r.FirstFence, name[:16], r.saved, []byte(step.Name), notNil(step.Data)})
	}
}

// Complete saves the result and ends the attempt, even if its lease has run out. When this lease has already completed,
// the first result stays. It returns ErrLeaseLost if another attempt has taken the key over, or if this one has
// released it, and ErrResultTooLarge for an answer with which the statement would be longer than max_allowed_packet.
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	if err := s.fits(len(r.Meta) + len(r.Body)); err != nil { // before it is copied
		return fmt.Errorf("complete %s: %w", l.Key, err)
	}
	r = r.Clone()
	kept := storekit.NewKeep(keep)
	values := append(leaseValues(l), int64(r.State()), int64(r.Code), number(r.Omitted),
		kept.Replay, kept.Key, kept.Audit, notNil(r.Meta), notNil(r.Body))
	err := s.underLease(ctx, "complete", newCompletion(l, r, keep).directly(s.sql.complete, values...))
	if err == nil {
		s.watches.Wake(l.Key.Digest())
	}
	return err
}

func newCompletion(l retrysafe.Lease, res retrysafe.Result, keep retrysafe.Retention) *change {
	kept := storekit.NewKeep(keep)
	return newChange(l, func(r *record, w *writes) error {
		if r != nil && !r.Expired(r.late) && r.State.Ended() && r.ClaimedUnder(l) {
			return nil // an earlier call has, whose answer was lost
		}
		return r.complete(w, l, res, kept)
	})
}

// complete ends the attempt that holds the key.
func (r *record) complete(w *writes, l retrysafe.Lease, res retrysafe.Result, keep storekit.Keep) error {
	if !r.heldUnder(l) {
		return retrysafe.ErrLeaseLost
	}
	r.State, r.Code, r.Omitted, r.Keep, r.EndsAt = res.State(), int64(res.Code), res.Omitted, keep, r.late
	// Looking a little late costs nothing, and an unchanged value leaves the index alone.
	if due := (r.EndsAt + max(keep.Key, keep.Audit)) / minute; r.sweepAt < due || r.sweepAt > due+3 {
		r.sweepAt = due
	}
	w.change(r)
	until := r.EndsAt + max(keep.Replay, keep.Audit)
	w.results = append(w.results, []any{r.EndsAt, r.digest[:], until, notNil(res.Meta), notNil(res.Body)})
	return nil
}

// Release gives the key up at once, without a result: for any request if no steps were saved, for the same request
// if there are any. It returns ErrLeaseLost if another attempt has the key, or if this one has completed.
func (s *Store) Release(ctx context.Context, l retrysafe.Lease) error {
	err := s.underLease(ctx, "release", newRelease(l).directly(s.sql.release, leaseValues(l)...))
	if err == nil {
		s.watches.Wake(l.Key.Digest())
	}
	return err
}

// newRelease releases the key. Without steps only the fence counts from then on, for a minute, until the row is swept
// or claimed: so fences grow although the clock is set back a little, and a late copy of insert.sql does not take the
// key.
func newRelease(l retrysafe.Lease) *change {
	return newChange(l, func(r *record, w *writes) error {
		switch {
		case r == nil || r.Expired(r.late) || r.State == retrysafe.Released:
			return nil
		case !r.PendingUnder(l):
			return retrysafe.ErrLeaseLost
		}
		r.State, r.EndsAt = retrysafe.Released, r.late
		if r.saved == 0 {
			r.EndsAt, r.Keep, r.sweepAt = 0, storekit.Keep{}, r.late/minute+1
		}
		w.change(r)
		return nil
	})
}

// heldUnder reports whether the attempt that l names has the key. r may be nil.
func (r *record) heldUnder(l retrysafe.Lease) bool {
	return r != nil && !r.Expired(r.late) && r.PendingUnder(l)
}

func (s *Store) underLease(ctx context.Context, verb string, c *change) error {
	if err := s.batcher.Do(ctx, c); err != nil {
		return fmt.Errorf("%s %s: %w", verb, c.lease.Key, err)
	}
	return nil
}

// change is a call under a lease.
type change struct {
	call
	lease   retrysafe.Lease
	apply   func(r *record, w *writes) error
	outcome error
}

// newChange returns a change of the row of a lease's key. apply gets the row as it is, or nil, and either changes
// nothing or adds to w.
func newChange(l retrysafe.Lease, apply func(r *record, w *writes) error) *change {
	return &change{call: newCall(l.Key, stepChange), lease: l, apply: apply}
}

// directly has a change try a statement first if it is alone in its batch.
func (c *change) directly(st *statement, values ...any) *change {
	c.direct = &direct{st, values}
	return c
}

// leaseValues are what a direct statement compares with the row of a key.
func leaseValues(l retrysafe.Lease) []any {
	d := l.Key.Digest()
	return []any{d[:], l.Owner[:], l.Fence}
}

// Begin implements storekit.Operation.
func (c *change) Begin() {
	c.call.Begin()
	c.outcome = nil
}

func (c *change) decide(r *record, w *writes) { c.outcome = c.apply(r, w) }

func (c *change) Next() (more bool) {
	c.Err = c.outcome
	return false
}

// notNil keeps absent bytes from being NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
