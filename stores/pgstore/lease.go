package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Extend makes the lease run for d from now, even if it has already run out.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	lasts := micros(d)
	return s.underLease(ctx, "extend", newChange(l, stepExtend, &lasts))
}

// EndLease has the lease of the key's claim with that fence run out now. It returns ErrLeaseLost if the claim does not
// have the key any more, and ErrNotAbandoned if a transaction holds the record.
func (s *Store) EndLease(ctx context.Context, d retrysafe.Digest, fence int64) error {
	err := s.readCommitted(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, s.sql.endLease, (*uuid)(&d), fence)
		if err == nil && tag.RowsAffected() == 0 {
			err = retrysafe.ErrLeaseLost
		}
		return err
	})
	if sqlState(err) == lockNotAvailable {
		err = storekit.ErrHeld
	}
	if err != nil {
		return fmt.Errorf("end the lease of %s: %w", d, explain(err))
	}
	return nil
}

// Checkpoint saves one step's result under the lease. If the step's name is already saved, the first result stays.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended, and ErrResultTooLarge
// for more than 256 MiB, or a name of more than 2048 bytes.
//
// Inside of InTx the step is saved when the transaction commits, and not otherwise.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	if err := storekit.CheckSize(len(step.Name), maxStepName); err != nil {
		return fmt.Errorf("checkpoint %s: the step's name: %w", l.Key, err)
	}
	return s.underLease(ctx, "checkpoint", newCheckpoint(l, step))
}

// maxStepName is how many bytes the index of the steps takes of a name, as save_step of the SQL functions does.
const maxStepName = 2048

func newCheckpoint(l retrysafe.Lease, step retrysafe.StepResult) *change {
	name, data := binary(step.Name), binary(step.Data)
	c := newChange(l, stepCheckpoint, &name, &data)
	c.size = len(data)
	return c
}

// Complete saves the result and ends the attempt, even if its lease has run out. When this lease has already completed,
// the first result stays. It returns ErrLeaseLost if another attempt has taken the key over, or if this one has
// released it, and ErrResultTooLarge for more than 256 MiB.
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	return s.underLease(ctx, "complete", newCompletion(l, r, keep))
}

func newCompletion(l retrysafe.Lease, res retrysafe.Result, keep retrysafe.Retention) *change {
	v := &struct {
		state, code number
		omitted     boolean
		keep        storekit.Keep
		meta, body  binary
	}{number(res.State()), number(res.Code), boolean(res.Omitted), storekit.NewKeep(keep), res.Meta, res.Body}
	c := newChange(l, stepComplete, &v.state, &v.code, &v.omitted,
		(*number)(&v.keep.Replay), (*number)(&v.keep.Key), (*number)(&v.keep.Audit), &v.meta, &v.body)
	c.madeBefore = func(r *record) bool { return r != nil && r.State.Ended() && r.ClaimedUnder(l) }
	c.size = len(res.Meta) + len(res.Body)
	return c
}

// Release gives the key up at once, without a result: for any request if no steps were saved, for the same request
// if there are any. It returns ErrLeaseLost if another attempt has the key, or if this one has completed.
func (s *Store) Release(ctx context.Context, l retrysafe.Lease) error {
	c := newChange(l, stepRelease)
	c.madeBefore = func(r *record) bool { return r == nil || r.State == retrysafe.Released }
	return s.underLease(ctx, "release", c)
}

func (s *Store) underLease(ctx context.Context, verb string, c *change) error {
	err := storekit.CheckSize(c.size, storekit.MaxContent)
	if err == nil {
		err = s.batcher.Do(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, c.lease.Key, err)
	}
	return nil
}

// change is a call under a lease.
type change struct {
	call
	lease retrysafe.Lease
	size  int // of a result or a step, in bytes
	// madeBefore reports whether a change that has touched no row was made by an earlier call whose answer was lost.
	// It gets the live record of the key, or nil. Without it there is no difference to see, and the lease is lost.
	madeBefore func(r *record) bool
}

// newChange returns a change whose row has the key, the lease, and what the statement sets.
func newChange(l retrysafe.Lease, s storekit.Step, set ...any) *change {
	c := &change{call: newCall(l.Key, s), lease: l}
	c.values = append([]any{c.key(), (*uuid)(&c.lease.Owner), (*number)(&c.lease.Fence)}, set...)
	return c
}

func (c *change) Next() (more bool) {
	switch {
	case c.made:
		return false
	case c.Step != stepFind && c.madeBefore != nil:
		return c.ContinueWith(stepFind)
	case c.Step == stepFind && c.madeBefore(c.live()):
		return false
	}
	c.Err = retrysafe.ErrLeaseLost
	return false
}

// live is the record that was found, or nil if it has expired.
func (c *change) live() *record {
	if c.found != nil && c.found.Expired(c.found.now) {
		return nil
	}
	return c.found
}
