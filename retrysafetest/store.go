package retrysafetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// memory is embedded under a name that users cannot reach, so that no write goes around the Store.
type memory = memstore.Store

// Store is an in-memory retrysafe.Store for tests. It keeps the whole contract (memstore does), and adds what tests
// need: transactions without a database (InTx, Apply), time that passes on request (Advance), and processes that are
// killed or paused at a chosen place (KillAt, PauseAt). It is safe for concurrent use and needs no Close.
type Store struct {
	*memory
	passed atomic.Int64 // what Advance has added to the clock, in nanoseconds

	mu      sync.Mutex // held while a write, or a transaction as a whole, is carried out
	planned *interruption
	stopped map[retrysafe.Owner]error // attempts that were killed or are paused, and what their calls return
	gate    *gate
	fail    error                  // what the next commit of InTx returns; nothing is committed then
	keys    map[retrysafe.Key]bool // claimed since the last call of watchKeys
	replays int                    // claims answered from the record since then
}

// NewStore returns an empty Store.
func NewStore() *Store {
	s := &Store{stopped: map[retrysafe.Owner]error{}, keys: map[retrysafe.Key]bool{}}
	start := time.Now()
	s.memory = memstore.New(memstore.Options{
		Clock: func() time.Duration { return time.Since(start) + time.Duration(s.passed.Load()) },
	})
	return s
}

// Advance lets d pass on the store's clock, without waiting: leases run out and retention ends as if d had gone by.
// Timers of the Guard, such as heartbeats, do not follow.
func (s *Store) Advance(d time.Duration) { s.passed.Add(int64(d)) }

// Claim implements retrysafe.Store.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (c retrysafe.Claim, err error) {
	lease := retrysafe.Lease{Key: p.Key, Owner: p.Owner}
	s.boundary("before Claim", lease)
	err = s.write(lease, func() error {
		c, err = s.memory.Claim(ctx, p)
		s.keys[p.Key] = true
		if err == nil && c.Verdict == retrysafe.Done {
			s.replays++
		}
		s.gate.arrived(p.Owner)
		return err
	})
	if c.Verdict == retrysafe.Acquired {
		lease = c.Lease
	}
	s.boundary("after Claim", lease)
	return c, err
}

// Extend implements retrysafe.Store.
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return s.write(l, func() error { return s.memory.Extend(ctx, l, d) })
}

// Checkpoint implements retrysafe.Store.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	return s.interruptible("Checkpoint of the step "+step.Name, l, func() error {
		return s.memory.Checkpoint(ctx, l, step)
	})
}

// Complete implements retrysafe.Store.
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	s.awaitOthers()
	return s.interruptible("Complete", l, func() error { return s.memory.Complete(ctx, l, r, keep) })
}

// Release implements retrysafe.Store.
func (s *Store) Release(ctx context.Context, l retrysafe.Lease) error {
	s.awaitOthers()
	return s.interruptible("Release", l, func() error { return s.memory.Release(ctx, l) })
}

// interruptible carries out a write of an attempt, with a place to interrupt it on each side.
func (s *Store) interruptible(call string, l retrysafe.Lease, do func() error) error {
	s.boundary("before "+call, l)
	err := s.write(l, do)
	s.boundary("after "+call, l)
	return err
}

// write carries out one write, unless the attempt was killed or is paused.
func (s *Store) write(l retrysafe.Lease, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stopped[l.Owner]; err != nil {
		return err
	}
	return do()
}

// watchKeys forgets which keys were claimed.
func (s *Store) watchKeys() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.keys)
	s.replays = 0
}

// claimed returns under how many scopes and IDs keys were claimed since watchKeys, and how often the answer came from
// the record.
func (s *Store) claimed() (scopes, ids map[string]bool, replays int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	scopes, ids = map[string]bool{}, map[string]bool{}
	for k := range s.keys {
		scopes[k.Scope], ids[k.ID] = true, true
	}
	return scopes, ids, s.replays
}
