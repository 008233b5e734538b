package sqlitestore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Extend makes the lease run for d from now, even if it has already run out.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return s.underLease(ctx, "extend", l, func(t *session, c change) error {
		until := t.now + micros(d)
		id, err := c.pending(t, t.now, "extend", until)
		if err == nil && until <= t.now {
			t.wake(c.digest)
			t.deadlines = append(t.deadlines, deadline{id, until}) // earlier than the claim said
		}
		return err
	})
}

// Checkpoint saves one step's result under the lease. If the step's name is already saved, the first result stays.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	if s.writer.lentTo(l) {
		return fmt.Errorf("checkpoint %s: %w", l.Key, ErrInsideTransaction)
	}
	return s.underLease(ctx, "checkpoint", l, func(t *session, c change) error {
		r, err := c.find(t, t.now)
		switch {
		case err != nil:
			return err
		case r == nil || !r.pendingUnder(l):
			return retrysafe.ErrLeaseLost
		}
		added, err := t.exec("insert_step", r.id, r.steps+1, blob(step.Name), step.Data)
		if added == 0 || err != nil {
			return err
		}
		_, err = t.exec("count_step", r.id)
		return err
	})
}

// Complete saves the result and ends the attempt, even if its lease has run out. When this lease has already completed,
// the first result stays. It returns ErrLeaseLost if another attempt has taken the key over, or if this one has
// released it.
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	return s.underLease(ctx, "complete", l, func(t *session, c change) error {
		return c.complete(t, r, newKeep(keep))
	})
}

// Release gives the key up at once, without a result: for any request if no steps were saved, for the same request if
// there are any. It returns ErrLeaseLost if another attempt has the key, or if this one has completed.
func (s *Store) Release(ctx context.Context, l retrysafe.Lease) error {
	return s.underLease(ctx, "release", l, func(t *session, c change) error {
		r, err := c.find(t, t.now)
		switch {
		case err != nil:
			return err
		case r == nil || r.state == retrysafe.Released:
			return nil // nobody has it
		case !r.pendingUnder(l):
			return retrysafe.ErrLeaseLost
		}
		t.wake(c.digest)
		if r.steps == 0 {
			return t.delete(r)
		}
		t.deadlines = append(t.deadlines, deadline{r.id, t.now + r.keep.key})
		_, err = t.exec("release", r.id, t.now)
		return err
	})
}

// change is a write under a lease.
type change struct {
	lease  retrysafe.Lease
	digest retrysafe.Digest
}

func (s *Store) underLease(ctx context.Context, verb string, l retrysafe.Lease, do func(*session, change) error) error {
	c := change{lease: l, digest: l.Key.Digest()}
	err := s.writer.write(ctx, func(t *session) error { return do(t, c) })
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, l.Key, err)
	}
	return nil
}

// find returns the live record of the lease's key, whoever has it; nil if there is none.
func (c change) find(run runner, now instant) (*record, error) {
	r, err := find(run, c.digest, noBody)
	if err != nil || r == nil || r.expired(now) {
		return nil, err
	}
	return r, nil
}

// complete saves the result, unless this lease has done so before.
func (c change) complete(t *session, res retrysafe.Result, k keep) error {
	id, err := c.pending(t, t.now, "complete", c.values(t.now, res, k)...)
	if err == nil {
		t.wake(c.digest)
		t.deadlines = append(t.deadlines, deadline{id, t.now + k.audit})
	}
	if err != retrysafe.ErrLeaseLost {
		return err
	}
	r, err := c.find(t, t.now)
	if err == nil && (r == nil || !r.state.Ended() || !r.lastClaimedUnder(c.lease)) {
		return retrysafe.ErrLeaseLost
	}
	return err
}

// values is what complete.sql sets.
func (c change) values(now instant, r retrysafe.Result, k keep) []driver.Value {
	return []driver.Value{
		int64(r.State()), now, k.replay, k.key, k.audit, int64(r.Code), btoi(r.Omitted), r.Meta, r.Body,
	}
}

// pending runs a statement that changes the record if the lease holds, and returns the record's id; otherwise it returns
// ErrLeaseLost. A first attempt finds its row without the index: its fence is the row's id.
func (c change) pending(run runner, now instant, q query, set ...driver.Value) (id int64, err error) {
	l := c.lease
	id = l.Fence
	for range 2 {
		n, err := run.exec(q, append(set[:len(set):len(set)], id, c.digest[:], l.Fence, l.Owner[:], now)...)
		if n > 0 || err != nil {
			return id, err
		}
		r, err := c.find(run, now)
		if err != nil {
			return 0, err
		}
		if r == nil || r.id == id || !r.pendingUnder(l) {
			break
		}
		id = r.id
	}
	return 0, retrysafe.ErrLeaseLost
}
