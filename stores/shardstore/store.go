package shardstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Shard is one of the stores that keep the keys.
type Shard struct {
	// Name decides which keys the shard has. It never changes, whatever server the shard is on. Required, and unique.
	Name string
	// Store keeps the records. The caller closes it, after the Guard has been shut down. Required.
	Store retrysafe.Store
}

// Options of a Store. Options{} works.
type Options struct {
	// Move moves keys to other shards while the Store is in use. Default: none.
	Move *Move
}

// Store implements retrysafe.Store over its shards, and Sweeper, Watcher, Inspector, Purger, Reopener, Finder,
// SightingKeeper and RiskReporter as far as they do. It is safe for concurrent use, starts no goroutine, and needs no
// Close.
type Store struct {
	old    []*shard
	next   []*shard // of a move; nil: there is none
	all    []*shard // old and next, each once
	stage  Stage
	leases leases
	sweeps atomic.Uint64                              // counts the calls of Sweep
	sleep  func(context.Context, time.Duration) error // while a clock is behind
}

var (
	_ retrysafe.Store          = (*Store)(nil)
	_ retrysafe.Sweeper        = (*Store)(nil)
	_ retrysafe.Watcher        = (*Store)(nil)
	_ retrysafe.Inspector      = (*Store)(nil)
	_ retrysafe.Walker         = (*Store)(nil)
	_ retrysafe.Sizer          = (*Store)(nil)
	_ retrysafe.Purger         = (*Store)(nil)
	_ retrysafe.Reopener       = (*Store)(nil)
	_ retrysafe.Finder         = (*Store)(nil)
	_ retrysafe.SightingKeeper = (*Store)(nil)
	_ retrysafe.RiskReporter   = (*Store)(nil)
)

// New returns a Store over these shards, in any order. It returns an error if there is none, if a name is missing or
// occurs twice, if a shard has no store or the store of another one, or if [Options.Move] is not valid.
func New(shards []Shard, o Options) (*Store, error) {
	s := &Store{sleep: sleep}
	var err error
	if s.old, err = s.add(shards); err != nil {
		return nil, err
	}
	if o.Move == nil {
		return s, nil
	}
	if s.stage = o.Move.Stage; s.stage != OldDecides && s.stage != NewDecides {
		return nil, fmt.Errorf("shardstore: Move.Stage is %d; it must be OldDecides or NewDecides", s.stage)
	}
	if s.next, err = s.add(o.Move.To); err != nil {
		return nil, fmt.Errorf("%w (in Move.To)", err)
	}
	for _, one := range s.all {
		if _, ok := retrysafe.As[retrysafe.Inspector](one.Store); !ok {
			return nil, fmt.Errorf("shardstore: keys cannot be moved: %w", one.unsupported("retrysafe.Inspector"))
		}
	}
	return s, nil
}

// add returns the shards of one set. A shard that is in both sets is the same one in both.
func (s *Store) add(set []Shard) (shards []*shard, err error) {
	if len(set) == 0 {
		return nil, errors.New("shardstore: no shards: name at least one")
	}
	for i, one := range set {
		if slices.ContainsFunc(set[:i], func(other Shard) bool { return other.Name == one.Name }) {
			return nil, fmt.Errorf("shardstore: two shards have the name %q: give each its own", one.Name)
		}
		known, err := s.known(one)
		if err != nil {
			return nil, err
		}
		if known == nil {
			known = newShard(one)
			s.all = append(s.all, known)
		}
		shards = append(shards, known)
	}
	return shards, nil
}

// known returns the shard of this name, or nil.
func (s *Store) known(one Shard) (*shard, error) {
	switch {
	case one.Name == "":
		return nil, errors.New("shardstore: a shard has no name; its name decides which keys it has")
	case one.Store == nil:
		return nil, fmt.Errorf("shardstore: shard %q has no store", one.Name)
	}
	for _, other := range s.all {
		switch {
		case other.Name == one.Name && same(other.Store, one.Store):
			return other, nil
		case other.Name == one.Name:
			return nil, fmt.Errorf("shardstore: shard %q has another store before the move than after it: keys would be lost; "+
				"give the new one another name", one.Name)
		case same(other.Store, one.Store):
			return nil, fmt.Errorf("shardstore: shards %q and %q have the same store", other.Name, one.Name)
		}
	}
	return nil, nil
}

// StoreOf returns the store that has the key, for what only that store can do: a transaction of the work that is to
// complete the attempt runs in it.
//
//	err := store.StoreOf(attempt.Key()).(*pgstore.Store).InTx(ctx, f)
//
// In the transaction of another shard nothing is completed: InTx returns an error that is [retrysafe.ErrLeaseLost] and
// says so.
//
// During a move it is the store that decides.
func (s *Store) StoreOf(k retrysafe.Key) retrysafe.Store { return s.place(k.Digest()).first.Store }

// Claim implements [retrysafe.Store], on the key's shard; during a move on both.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	at := s.place(p.Key.Digest())
	if at.second != nil {
		return s.claimBoth(ctx, at, p)
	}
	return at.first.claim(ctx, p)
}

// Extend implements [retrysafe.Store], on the key's shard; during a move on both.
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	at := s.place(l.Key.Digest())
	other, held := s.second(at, l)
	oldFirst := held && s.stage == NewDecides && d > 0
	if oldFirst {
		// The old store must not forget an attempt that the new one knows: at stage 1 it would begin the key anew.
		if err := at.second.Store.Extend(ctx, other, d); err != nil {
			return at.second.explain(err)
		}
	}
	err := at.first.Store.Extend(ctx, l, d)
	if held && err == nil {
		if !oldFirst {
			_ = at.second.Store.Extend(ctx, other, d) // if this fails, the lease runs out there, which changes nothing
		}
		s.leases.extend(l, d)
	}
	return at.first.explain(err)
}

// Checkpoint implements [retrysafe.Store], on the key's shard; during a move on both.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	at := s.place(l.Key.Digest())
	if err := at.first.Store.Checkpoint(ctx, l, step); err != nil || at.second == nil {
		return at.first.explain(err)
	}
	other, held := s.second(at, l)
	if !held {
		return at.second.explain(fmt.Errorf("checkpoint %s: the lease was claimed through another Store, and a step must "+
			"be saved in both stores of a move", l.Key))
	}
	return at.second.explain(at.second.Store.Checkpoint(ctx, other, step))
}

// Complete implements [retrysafe.Store], on the key's shard; during a move on both.
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	at := s.place(l.Key.Digest())
	err := at.first.Store.Complete(ctx, l, r, keep)
	if other, held := s.second(at, l); held && err == nil {
		// The answer is saved where it decides. A claim that finds the key abandoned in the other store looks here.
		if at.second.Store.Complete(ctx, other, r, keep) == nil {
			s.leases.forget(l)
		}
	}
	return at.first.explain(err)
}

// Release implements [retrysafe.Store], on the key's shard; during a move on both, in the reverse order of a claim: a
// claim that gets the first store then gets the second one too.
func (s *Store) Release(ctx context.Context, l retrysafe.Lease) error {
	at := s.place(l.Key.Digest())
	if other, held := s.second(at, l); held {
		// A lease that is lost there is lost in the store that decides too, which says so.
		if err := at.second.Store.Release(ctx, other); err != nil && !errors.Is(err, retrysafe.ErrLeaseLost) {
			return at.second.explain(err)
		}
	}
	if err := at.first.Store.Release(ctx, l); err != nil {
		return at.first.explain(err)
	}
	s.leases.forget(l)
	return nil
}

// second returns the lease that the holder of l has in the second store.
func (s *Store) second(at placement, l retrysafe.Lease) (retrysafe.Lease, bool) {
	if at.second == nil {
		return retrysafe.Lease{}, false
	}
	return s.leases.of(l)
}

func (s *shard) claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c, err := s.Store.Claim(ctx, p)
	return c, s.explain(err)
}

// explain names the shard whose error it is.
func (s *shard) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("shard %s: %w", s.Name, err)
}

// unsupported says which shard is not what.
func (s *shard) unsupported(what string) error {
	return fmt.Errorf("shard %s: its store, a %T, is not a %s: %w", s.Name, s.Store, what, errors.ErrUnsupported)
}

// same reports whether two stores are one.
func same(a, b retrysafe.Store) bool {
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}
