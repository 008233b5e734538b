package shardstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// interrupted is a store in which something else happens before a call.
type interrupted struct {
	*memstore.Store
	beforeInspect, beforeReopen, beforePurge func() error // once; nil: nothing. With an error, the call fails
}

func once(f *func() error) error {
	if *f == nil {
		return nil
	}
	now := *f
	*f = nil
	return now()
}

func (s *interrupted) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	if err := once(&s.beforeInspect); err != nil {
		return nil, err
	}
	return s.Store.Inspect(ctx, d)
}

func (s *interrupted) Reopen(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	if err := once(&s.beforeReopen); err != nil {
		return err
	}
	return s.Store.Reopen(ctx, d, fence, step)
}

func (s *interrupted) Purge(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	if err := once(&s.beforePurge); err != nil {
		return err
	}
	return s.Store.Purge(ctx, d, fence, step)
}

// A purge that stops between both stores does not succeed when it is repeated after the key was reopened: one store has
// earlier answers left, which go when the key is purged after it has ended again.
//
// Seen to fail with Purge returning nil if one of the records has the step.
func TestReopenAfterHalfAPurge(t *testing.T) {
	for _, stage := range []Stage{OldDecides, NewDecides} {
		synctest.Test(t, func(t *testing.T) {
			old := &interrupted{Store: memstore.New(memstore.Options{})}
			next := &interrupted{Store: memstore.New(memstore.Options{})}
			s := move(t, old, next, stage)
			p := retrysafe.ClaimParams{
				Key: retrysafe.Key{ID: "k"}, Lease: time.Minute,
				Keep: retrysafe.Retention{Replay: time.Hour, Key: time.Hour, Audit: 24 * time.Hour},
			}
			d := p.Key.Digest()
			run := func() (fence int64) {
				t.Helper()
				p.Owner = retrysafe.NewOwner()
				c, err := s.Claim(t.Context(), p)
				if err == nil {
					err = s.Complete(t.Context(), c.Lease, retrysafe.Result{Body: []byte("secret")}, p.Keep)
				}
				if err != nil {
					t.Fatal(err)
				}
				return c.Lease.Fence
			}
			entry := func(by string) retrysafe.StepResult {
				return retrysafe.StepResult{Name: retrysafe.AuditStepPrefix + by}
			}
			purge := func(fence int64, by string) error { return s.Purge(t.Context(), d, fence, entry(by)) }
			run()
			time.Sleep(2 * time.Hour) // it is an earlier answer by then
			fence := run()
			lost := errors.New("no answer")
			next.beforePurge = func() error { return lost }
			if err := purge(fence, "ada"); !errors.Is(err, lost) {
				t.Fatalf("got %v, want that the second store does not answer", err)
			}
			if err := s.Reopen(t.Context(), d, fence, entry("eve")); err != nil {
				t.Fatal(err)
			}
			if err := purge(fence, "ada"); !errors.Is(err, retrysafe.ErrNotEnded) {
				t.Errorf("%v: got %v, want ErrNotEnded", stage, err)
			}
			if err := purge(run(), "ada again"); err != nil {
				t.Errorf("%v, after it has ended again: %v", stage, err)
			}
			for i, one := range []*interrupted{old, next} {
				found, err := one.Inspect(t.Context(), d)
				if err != nil || len(found) != 2 || len(found[0].Result.Body)+len(found[1].Result.Body) > 0 {
					t.Errorf("%v: store %d has %+v, %v; want two records without a body", stage, i, found, err)
				}
			}
		})
	}
}

// One decision frees a key once, whatever comes between its two stores. Seen to fail with each record reopened by the
// fence that it has by then; with copies returning what it saw first; with unfinished left out of Purge; and
// with a repeated Reopen that does nothing.
func TestReopenBesideOtherCalls(t *testing.T) {
	lost := errors.New("no answer")
	for _, stage := range []Stage{OldDecides, NewDecides} {
		old, next := &interrupted{Store: memstore.New(memstore.Options{})}, &interrupted{Store: memstore.New(memstore.Options{})}
		s := move(t, old, next, stage)
		p := retrysafe.ClaimParams{Lease: time.Minute, Keep: retrysafe.Retention{Replay: time.Hour, Key: time.Hour}}
		var fence int64
		run := func() error {
			p.Owner = retrysafe.NewOwner()
			c, err := s.Claim(t.Context(), p)
			if err != nil || c.Verdict != retrysafe.Acquired {
				return fmt.Errorf("claim: got %v, %w", c.Verdict, err)
			}
			fence = c.Lease.Fence
			return s.Complete(t.Context(), c.Lease, retrysafe.Result{Code: 201}, p.Keep)
		}
		entry := func(by string) retrysafe.StepResult {
			return retrysafe.StepResult{Name: retrysafe.AuditStepPrefix + by}
		}
		reopen := func(by string) error { return s.Reopen(t.Context(), p.Key.Digest(), fence, entry(by)) }
		anew := func() error { return errors.Join(reopen("eve"), run()) }
		for _, test := range []struct {
			name   string
			when   func()
			first  error
			second error // of the same decision, repeated
			free   bool
		}{
			{
				"a later answer before the first store is reopened", func() { old.beforeReopen = anew },
				retrysafe.ErrNotEnded, retrysafe.ErrNotEnded, false,
			},
			{
				"a later answer between both looks", func() { old.beforeInspect = anew },
				retrysafe.ErrNotEnded, retrysafe.ErrNotEnded, false,
			},
			{
				"the second store does not answer", func() { next.beforeReopen = func() error { return lost } },
				lost, nil, true,
			},
			{"the second store does not answer, and a purge follows", func() {
				next.beforeReopen = func() error {
					shown, err := s.Inspect(t.Context(), p.Key.Digest())
					if err != nil {
						return err
					}
					return cmp.Or(s.Purge(t.Context(), p.Key.Digest(), shown[0].Fence, entry("purge")), lost)
				}
			}, lost, nil, true},
			{"another one is quicker in the second store", func() {
				next.beforeReopen = func() error { return reopen("eve") }
			}, retrysafe.ErrNotEnded, nil, true},
		} {
			p.Key = retrysafe.Key{ID: test.name}
			if err := run(); err != nil {
				t.Fatal(err)
			}
			test.when()
			meant := fence
			first := reopen("ada")
			second := s.Reopen(t.Context(), p.Key.Digest(), meant, entry("ada"))
			if !errors.Is(first, test.first) || !errors.Is(second, test.second) {
				t.Errorf("%v, %s: got %v and %v; want %v and %v", stage, test.name, first, second, test.first, test.second)
			}
			for i, one := range []*interrupted{old, next} {
				r, err := one.Inspect(t.Context(), p.Key.Digest())
				if err != nil || len(r) != 1 || (r[0].State == retrysafe.Released) != test.free {
					t.Errorf("%v, %s: store %d has %+v, %v; want free: %v", stage, test.name, i, r, err, test.free)
				}
			}
			if err := run(); (err == nil) != test.free {
				t.Errorf("%v, %s: the next claim: %v; want free: %v", stage, test.name, err, test.free)
			}
		}
	}
}
