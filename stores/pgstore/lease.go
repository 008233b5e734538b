package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// extension is one call of Extend.
type extension struct {
	change
	lasts number
}

// Extend makes the lease run for d from now, even if it has already run out.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	e := &extension{change: newChange(l), lasts: micros(d)}
	if err := s.do(ctx, e); err != nil {
		return fmt.Errorf("extend %s: %w", l.Key, err)
	}
	return nil
}

func (e *extension) join(b *batch) bool {
	e.made = false
	return b.extensions.add(e)
}

func (e *extension) settle() bool {
	if !e.made {
		e.err = retrysafe.ErrLeaseLost
	}
	return true
}

func (e *extension) row() []any { return append(e.change.row(), &e.lasts) }

// release is one call of Release.
type release struct{ change }

// Release gives the key up at once, without a result: for any request if no steps were saved, for the same request
// if there are any. It returns ErrLeaseLost if another attempt has the key, or if this one has completed.
func (s *Store) Release(ctx context.Context, l retrysafe.Lease) error {
	if err := s.do(ctx, &release{newChange(l)}); err != nil {
		return fmt.Errorf("release %s: %w", l.Key, err)
	}
	return nil
}

func (r *release) join(b *batch) bool {
	r.made, r.found = false, nil
	if r.looking {
		return b.see(r)
	}
	return b.releases.add(r)
}

func (r *release) settle() bool {
	return r.settleBy(func(found *record) error {
		if found == nil || found.State == retrysafe.Released {
			return nil // nobody has it
		}
		return retrysafe.ErrLeaseLost
	})
}

// checkpoint is one call of Checkpoint.
type checkpoint struct {
	change
	name, data binary
}

func newCheckpoint(l retrysafe.Lease, step retrysafe.StepResult) *checkpoint {
	return &checkpoint{newChange(l), binary(step.Name), step.Data}
}

// Checkpoint saves one step's result under the lease. If the step's name is already saved, the first result stays.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
//
// Inside of InTx the step is saved when the transaction commits, and not otherwise.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	if err := s.do(ctx, newCheckpoint(l, step)); err != nil {
		return fmt.Errorf("checkpoint %s: %w", l.Key, err)
	}
	return nil
}

func (c *checkpoint) join(b *batch) bool {
	c.made = false
	return b.checkpoints.add(c)
}

func (c *checkpoint) settle() bool {
	if !c.made {
		c.err = retrysafe.ErrLeaseLost
	}
	return true
}

func (c *checkpoint) row() []any {
	return append(c.change.row(), &c.name, &c.data)
}
