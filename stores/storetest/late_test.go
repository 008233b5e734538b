package storetest_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Each rule about late calls fails with a store that obeys one of them, whichever it is.
func TestEachRuleAboutLateCallsCanFail(t *testing.T) {
	if fault, ok := os.LookupEnv(faultEnv); ok {
		storetest.Run(t, storetest.Harness{
			Open: func(*testing.T) retrysafe.Store { return newObedient(fault) },
			Age:  func(_ *testing.T, s retrysafe.Store, d time.Duration) { s.(*obedient).passed.Add(int64(d)) },
		})
		return
	}
	rules := runWith(t, "late-calls/", "")
	for _, fault := range []string{
		"Claim", "Claim that takes over", "Extend", "Extend by nothing", "Checkpoint", "Complete", "Release",
	} {
		broken := runWith(t, "late-calls/", fault)
		for rule, failed := range rules {
			if failed {
				t.Errorf("%s fails without a fault", rule)
			}
			if !broken[rule] {
				t.Errorf("a late %s is obeyed, and %s does not fail", fault, rule)
			}
		}
	}
	if fault := keepsAnew; !runWith(t, "late-calls/", fault)["late-calls/completed"] {
		t.Errorf("%s, and late-calls/completed does not fail", fault)
	}
}

// keepsAnew is a fault that leaves the answer as it was.
const keepsAnew = "a late Complete sets the retention"

// obedient is a store for one key that obeys one of the calls of an attempt that has ended, or that another has
// followed. Its calls are not concurrent.
type obedient struct {
	*memstore.Store
	fault  string
	start  time.Time
	passed atomic.Int64

	asked  map[retrysafe.Owner]retrysafe.ClaimParams
	newest retrysafe.Lease
	result *retrysafe.Result // of the newest lease, once it has completed
}

func newObedient(fault string) *obedient {
	s := &obedient{fault: fault, start: time.Now(), asked: map[retrysafe.Owner]retrysafe.ClaimParams{}}
	s.forget()
	return s
}

func (s *obedient) forget() {
	s.Store = memstore.New(memstore.Options{Clock: func() time.Duration {
		return time.Since(s.start) + time.Duration(s.passed.Load())
	}})
}

func (s *obedient) isLate(o retrysafe.Owner) bool { return s.newest.Owner != o || s.result != nil }

func (s *obedient) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	call := "Claim"
	if p.TakeOver {
		call = "Claim that takes over"
	}
	if _, again := s.asked[p.Owner]; again && s.fault == call && s.isLate(p.Owner) {
		s.forget()
	}
	s.asked[p.Owner] = p
	c, err := s.Store.Claim(ctx, p)
	if c.Verdict == retrysafe.Acquired {
		s.newest, s.result = c.Lease, nil
	}
	return c, err
}

// obeyed returns the lease under which the call is carried out: l, or the newest if the call is late and obeyed.
func (s *obedient) obeyed(ctx context.Context, call string, l retrysafe.Lease) retrysafe.Lease {
	if s.fault != call || !s.isLate(l.Owner) {
		return l
	}
	if s.result != nil { // the key begins anew
		s.forget()
		c, err := s.Store.Claim(ctx, s.asked[s.newest.Owner])
		if err != nil {
			return l
		}
		s.newest, s.result = c.Lease, nil
	}
	return s.newest
}

func (s *obedient) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	call := "Extend"
	if d == 0 {
		call = "Extend by nothing"
	}
	return s.Store.Extend(ctx, s.obeyed(ctx, call, l), d)
}

func (s *obedient) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	return s.Store.Checkpoint(ctx, s.obeyed(ctx, "Checkpoint", l), step)
}

func (s *obedient) Complete(
	ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention,
) error {
	if s.fault == keepsAnew && s.result != nil {
		r = *s.result
		l = s.obeyed(ctx, keepsAnew, l)
	}
	l = s.obeyed(ctx, "Complete", l)
	err := s.Store.Complete(ctx, l, r, keep)
	if err == nil && l == s.newest {
		s.result = &r
	}
	return err
}

func (s *obedient) Release(ctx context.Context, l retrysafe.Lease) error {
	return s.Store.Release(ctx, s.obeyed(ctx, "Release", l))
}
