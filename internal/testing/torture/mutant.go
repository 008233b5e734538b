package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Names returns the names of mutants, for Subject.Mutants.
func Names[M any](mutants map[string]M) []string { return slices.Sorted(maps.Keys(mutants)) }

// Mutation is changes of texts, such as SQL statements, that break a store together: usually they take one condition
// out.
type Mutation []Change

// Change replaces Old in Text wherever it stands.
type Change struct {
	Text         *string
	Old, Instead string
}

// Apply makes the changes. It returns an error if a text does not say what is to be replaced: the mutant would be none.
func (m Mutation) Apply() error {
	if len(m) == 0 {
		return errors.New("there is no such mutant")
	}
	for _, c := range m {
		if !strings.Contains(*c.Text, c.Old) {
			return fmt.Errorf("the text does not say %q", c.Old)
		}
		*c.Text = strings.ReplaceAll(*c.Text, c.Old, c.Instead)
	}
	return nil
}

// AnyLease is a mutant of a store that compares leases in Go: in one of its calls it takes any lease of a key for that
// of the attempt that has the key.
type AnyLease struct {
	retrysafe.Store
	Call string // extend, checkpoint or complete
	// Holder returns the lease of the attempt that has the key of l; l if no attempt has it.
	Holder func(ctx context.Context, l retrysafe.Lease) retrysafe.Lease
}

func (a AnyLease) lease(ctx context.Context, call string, l retrysafe.Lease) retrysafe.Lease {
	if a.Call != call {
		return l
	}
	return a.Holder(ctx, l)
}

// Extend implements retrysafe.Store.
func (a AnyLease) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return a.Store.Extend(ctx, a.lease(ctx, "extend", l), d)
}

// Checkpoint implements retrysafe.Store.
func (a AnyLease) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	return a.Store.Checkpoint(ctx, a.lease(ctx, "checkpoint", l), step)
}

// Complete implements retrysafe.Store.
func (a AnyLease) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, k retrysafe.Retention) error {
	return a.Store.Complete(ctx, a.lease(ctx, "complete", l), r, k)
}
