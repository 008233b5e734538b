package shardstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A key that has ended in the store that decides alone is reopened in both, without the steps that both have: the whole
// operation runs again, whichever store decides by then. Seen to fail with endLike taken out of Reopen: the key was
// abandoned, with the step "a".
func TestReopenOfAnAnswerInOneStore(t *testing.T) {
	for _, stage := range []Stage{OldDecides, NewDecides} {
		synctest.Test(t, func(t *testing.T) {
			first := memstore.New(memstore.Options{})
			second := &failing{Store: memstore.New(memstore.Options{})}
			old, next := retrysafe.Store(first), retrysafe.Store(second)
			if stage == NewDecides {
				old, next = next, old
			}
			s := move(t, old, next, stage)
			p := retrysafe.ClaimParams{
				Key: retrysafe.Key{ID: "k"}, Owner: retrysafe.NewOwner(), Lease: time.Minute,
				Keep: retrysafe.Retention{Key: time.Hour},
			}
			c, err := s.Claim(t.Context(), p)
			second.completes = true
			err = errors.Join(err, s.Checkpoint(t.Context(), c.Lease, retrysafe.StepResult{Name: "a"}),
				s.Complete(t.Context(), c.Lease, retrysafe.Result{Code: 201}, p.Keep))
			second.completes = false
			if err != nil {
				t.Fatal(err)
			}
			entry := retrysafe.StepResult{Name: retrysafe.AuditStepPrefix + "reopened"}
			reopen := func() error { return s.Reopen(context.Background(), p.Key.Digest(), c.Lease.Fence, entry) }
			if err := reopen(); !errors.Is(err, retrysafe.ErrNotEnded) {
				t.Errorf("while the lease runs: got %v, want ErrNotEnded", err)
			}
			if again, err := s.Claim(t.Context(), p); err != nil || again.Verdict != retrysafe.Done {
				t.Errorf("after that: %v, %v; want done", again.Verdict, err)
			}
			time.Sleep(2 * time.Minute)
			for range 2 {
				if err := reopen(); err != nil {
					t.Error(err)
				}
			}
			late := s.Complete(t.Context(), c.Lease, retrysafe.Result{Code: 201}, p.Keep)
			if !errors.Is(late, retrysafe.ErrLeaseLost) {
				t.Errorf("the attempt that has ended: %v, want ErrLeaseLost", late)
			}
			for _, at := range []*Store{move(t, old, next, NewDecides), move(t, old, next, OldDecides)} {
				p.Owner = retrysafe.NewOwner()
				again, err := at.Claim(t.Context(), p)
				if err != nil || again.Verdict != retrysafe.Acquired || again.Record.Attempt < 2 ||
					again.Lease.Fence <= c.Lease.Fence || len(again.Record.Steps) != 1 || again.Record.Steps[0].Name != entry.Name {
					t.Fatalf("%v: %v, %+v, %v; want a later attempt with the entry alone", stage, again.Verdict, again.Record, err)
				}
				if err := at.Release(t.Context(), again.Lease); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
