package retrysafe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Attempt is one try at the work, as the work sees it. Its methods may be called from several goroutines, until the
// work returns.
type Attempt struct {
	lazyContext // what the work runs with

	caller detached // the context of the caller
	guard  *Guard
	lease  Lease // Fence 0: unprotected
	number int
	tries  int // see Tries
	began  time.Time

	inherited []StepResult // saved by earlier attempts

	doubted *ClaimParams // with which the key may be claimed once more, by a call that was taken for lost; nil: none

	mu        sync.Mutex
	steps     []StepResult
	asked     map[string]*txSteps // names of steps, and the transactions that they were asked for in; see ask
	calls     map[string]string   // see NoteCall
	capture   func() (Result, error)
	saved     *Result // by CompleteIn
	inDoubt   bool    // see InDoubt
	firstBeat place
	timer     *time.Timer // of later heartbeats
	state     attemptState
	givenUp   bool
	taken     bool // LeaseTaken was told
}

type attemptState uint8

const (
	working  attemptState = iota // the work runs
	saving                       // it has ended; its end is being saved
	finished                     // nothing more to do: heartbeats end
)

type attemptKey struct{}

// AttemptFrom returns the attempt that ctx belongs to.
func AttemptFrom(ctx context.Context) (*Attempt, bool) {
	a, ok := ctx.Value(attemptKey{}).(*Attempt)
	return a, ok
}

// ChildKey derives the key ID for a downstream call made inside an attempt. It returns an error that is ErrNoAttempt
// outside of one. See Key.Child.
func ChildKey(ctx context.Context, name string) (string, error) {
	a, ok := AttemptFrom(ctx)
	if !ok {
		return "", ErrNoAttempt
	}
	return a.ChildKey(name), nil
}

// SetResult says, inside an attempt started by the generic Do, what the work is about to return, so that it can be
// saved in the same database transaction as the work's own writes. Call it before the transaction ends, and return
// the same value afterwards. It returns ErrNoAttempt outside of an attempt, or the error of encoding v as JSON.
func SetResult(ctx context.Context, v any) error {
	a, ok := AttemptFrom(ctx)
	if !ok {
		return ErrNoAttempt
	}
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("retrysafe: encode the result: %w", err)
	}
	a.CaptureFunc(func() (Result, error) {
		a.CaptureFunc(nil) // it belongs to one transaction
		return Result{Body: body}, nil
	})
	return nil
}

// Key that this attempt works on.
func (a *Attempt) Key() Key { return a.lease.Key }

// Lease under which this attempt works. Its Fence is 0 if the attempt is not protected.
func (a *Attempt) Lease() Lease { return a.lease }

// Fence grows with each attempt at the key. Give it to systems that can refuse a smaller one. See Lease.
func (a *Attempt) Fence() int64 { return a.lease.Fence }

// Number of this attempt: 1 is the first, more follow a take-over or a release after saved steps.
func (a *Attempt) Number() int { return a.number }

// Tries is Number, counted from the last time that a person has released the key (ResolveRelease), which starts the count anew.
func (a *Attempt) Tries() int { return a.tries }

// Protected reports whether the key is claimed: true, unless the store failed and the policy is FailOpen.
func (a *Attempt) Protected() bool { return a.lease.Fence != 0 }

// Completed reports whether the work has completed the attempt inside a transaction of its own: see CompleteIn.
func (a *Attempt) Completed() bool { return a.savedResult() != nil }

// String names the attempt without showing its key.
func (a *Attempt) String() string { return fmt.Sprintf("attempt %d at key %s", a.number, a.lease.Key) }

// GoString hides the key from %#v too.
func (a *Attempt) GoString() string { return "retrysafe.Attempt(" + a.String() + ")" }

// LogValue hides the key from log/slog.
func (a *Attempt) LogValue() slog.Value { return slog.StringValue(a.String()) }

// ChildKey derives the key ID for a downstream call. See Key.Child.
func (a *Attempt) ChildKey(name string) string { return a.lease.Key.Child(name) }

// CaptureFunc sets the function that gives the result which CompleteIn saves. Adapters set it: for an HTTP handler it is
// the response written so far. It is called once for each transaction, also for one that is rolled back: whatever the
// work says afterwards does not belong to that one any more.
func (a *Attempt) CaptureFunc(f func() (Result, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.capture = f
}

// CompleteIn lets a store complete the attempt inside a database transaction of the work: save gets what there is to
// write, writes it, and commits. When it returns nil the attempt is over, and every request gets the saved result,
// whatever the work returns afterwards. It is what a store's InTx is made of.
//
// It returns ErrLeaseLost if the attempt has already been completed or taken over, the capture function's error, or
// what save returned; then nothing is completed. After an error of save that is marked Unknown the attempt is in doubt.
// If s is another store than the Guard's, which has no such attempt, an ErrLeaseLost of save says so.
func (a *Attempt) CompleteIn(s Store, save func(Lease, Result, Retention) error) error {
	r, err := a.captured()
	if err != nil {
		return err
	}
	r = a.guard.fit(r, a.guard.policy.MaxResult)
	if err := save(a.lease, r, a.guard.policy.Retention); err != nil {
		if c, _ := classify(err); c == unknown {
			a.InDoubt()
		}
		if errors.Is(err, ErrLeaseLost) && !isStore(a.guard.store, s) {
			return fmt.Errorf("the transaction is one of a %T, and the attempt's Guard was made with another store, a %T: "+
				"make the Guard with the store whose transaction completes the attempt (or, if that store is inside of the Guard's, "+
				"another attempt has taken over): %w", s, a.guard.store, err)
		}
		return err
	}
	a.mu.Lock()
	a.saved = &r
	a.mu.Unlock()
	a.finish()
	return nil
}

// RolledBack says that a transaction which was to complete the attempt has been rolled back before CompleteIn. What the
// work has answered inside of it is forgotten. A store's InTx calls it.
func (a *Attempt) RolledBack() { _, _ = a.captured() }

// InDoubt says that a transaction of the work may have been committed without completing the attempt. From then on the
// key is not released, even if the work says that nothing happened: it is abandoned instead. A store's InTx calls it.
func (a *Attempt) InDoubt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inDoubt = true
}

func (a *Attempt) isInDoubt() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inDoubt
}

func (a *Attempt) captured() (Result, error) {
	a.mu.Lock()
	capture, saved := a.capture, a.saved
	a.mu.Unlock()
	switch {
	case saved != nil:
		return Result{}, fmt.Errorf("complete twice: %w", ErrLeaseLost)
	case capture == nil:
		return Result{}, errors.New("retrysafe: no result to save with the transaction: call SetResult first")
	}
	return capture()
}

func (a *Attempt) savedResult() *Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.saved
}

// Value implements context.Context.
func (a *Attempt) Value(key any) any {
	if _, ok := key.(attemptKey); ok {
		return a
	}
	return a.lazyContext.Value(key)
}

// newAttempt returns an attempt whose context outlives the caller's patience: the record matters more.
func (g *Guard) newAttempt(ctx context.Context, c Claim) *Attempt {
	a := &Attempt{
		caller: detached{ctx},
		guard:  g,
		lease:  c.Lease,
		number: c.Record.Attempt,
		tries:  c.Record.Attempt - c.Record.releasedAt(),
		steps:  slices.Clone(workSteps(c.Record.Steps)),
		began:  time.Now(),
	}
	a.inherited = a.steps
	a.parent, a.timeouts = &a.caller, g.timeouts
	if g.policy.Timeout > 0 {
		a.deadline = a.began.Add(g.policy.Timeout)
	}
	return a
}

// tell tells the observers how the attempt goes.
func (a *Attempt) tell(kind EventKind, err error) {
	a.guard.observe(a, Event{
		Kind: kind, Key: a.lease.Key, Fence: a.lease.Fence, Attempt: a.number, Took: time.Since(a.began), Err: err,
	})
}
