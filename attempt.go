package retrysafe

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/lazyctx"
)

// Attempt is one try at the work, as the work sees it. Its methods may be called from several goroutines, until the
// work returns. What adapters and stores need of it is apart: see Control.
type Attempt struct {
	context lazyctx.Context  // what the work runs with
	caller  lazyctx.Detached // values of the caller's context
	guard   *Guard
	lease   Lease // Fence 0: unprotected
	number  int
	tries   int // see AttemptControl.Tries
	began   time.Time
	ended   time.Time // set when the work has returned

	inherited []StepResult // saved by earlier attempts

	fingerprint Fingerprint // with which the key was claimed
	takeOver    bool        // whether it was claimed to take over

	mu      sync.Mutex
	doubted bool // the key may be claimed once more, by a call that was taken for lost
	remote  bool // see AttemptControl.CompletedElsewhere
	steps   []StepResult
	called  map[string]*txSteps // names of steps, and the transactions in which they were called; see noteStep
	calls   map[string]string   // see AttemptControl.NoteCall
	capture func() (Result, error)
	inTx    *txSteps // the transaction that is open or was committed; see AttemptControl.BeginTx
	saved   *Result  // by AttemptControl.CompleteIn
	open    *OpenTx  // see AttemptControl.CompleteOpen
	// rolledBack: the last transaction of CompleteOpen was not committed.
	rolledBack bool
	inDoubt    bool // see AttemptControl.InDoubt
	firstBeat  firstBeat
	timer      *time.Timer // of later heartbeats
	state      attemptState
	givenUp    bool
	taken      bool // LeaseTaken was told

	saveFailed bool // a call to save the end has failed
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

// ChildKey derives the key ID for a downstream call made inside an attempt. It returns an error that is [ErrNoAttempt]
// outside of one. See [Guard.ChildKey].
func ChildKey(ctx context.Context, name string) (string, error) {
	a, ok := AttemptFrom(ctx)
	if !ok {
		return "", ErrNoAttempt
	}
	return a.ChildKey(name), nil
}

// SetResult says, inside an attempt started by the generic Do, what the work is about to return, so that it can be
// saved in the same database transaction as the work's own writes. Call it before the transaction ends, and return
// the same value afterwards. It returns [ErrNoAttempt] outside of an attempt, or the error of encoding v as JSON.
func SetResult(ctx context.Context, v any) error {
	a, ok := AttemptFrom(ctx)
	if !ok {
		return ErrNoAttempt
	}
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("retrysafe: encode the result: %w", err)
	}
	control := a.Control()
	control.Capture(func() (Result, error) {
		control.Capture(nil) // it belongs to one transaction
		return Result{Body: body}, nil
	})
	return nil
}

// Key returns the key that this attempt works on.
func (a *Attempt) Key() Key { return a.lease.Key }

// Fence returns a number that grows with each attempt at the key; 0 if the attempt is not protected. Pass it to systems
// that can refuse writes with a smaller one. See [Lease.Fence].
func (a *Attempt) Fence() int64 { return a.lease.Fence }

// Number returns which attempt at the key this is: 1 is the first, and more follow after a take-over or after a release
// with saved steps. After a release without saved steps it is 1 again, so 1 does not mean that nothing was tried before.
func (a *Attempt) Number() int { return a.number }

// Protected reports whether the key is claimed: true, unless the store failed and the policy is [FailOpen].
func (a *Attempt) Protected() bool { return a.lease.Fence != 0 }

// String names the attempt without showing its key.
func (a *Attempt) String() string { return fmt.Sprintf("attempt %d at key %s", a.number, a.lease.Key) }

// GoString hides the key from %#v too.
func (a *Attempt) GoString() string { return "retrysafe.Attempt(" + a.String() + ")" }

// LogValue hides the key from log/slog.
func (a *Attempt) LogValue() slog.Value { return slog.StringValue(a.String()) }

// ChildKey derives the key ID for a downstream call. See [Guard.ChildKey].
func (a *Attempt) ChildKey(name string) string { return a.guard.ChildKey(a.lease.Key, name) }

// Deadline implements context.Context.
func (a *Attempt) Deadline() (time.Time, bool) { return a.context.Deadline() }

// Done implements context.Context.
func (a *Attempt) Done() <-chan struct{} { return a.context.Done() }

// Err implements context.Context.
func (a *Attempt) Err() error { return a.context.Err() }

// Value implements context.Context.
func (a *Attempt) Value(key any) any {
	if _, ok := key.(attemptKey); ok {
		return a
	}
	return a.context.Value(key)
}

// newAttempt returns an attempt whose context outlives the caller's: the work should end and be recorded even if its
// caller has stopped waiting.
func (g *Guard) newAttempt(ctx context.Context, c Claim) *Attempt {
	a := &Attempt{
		caller: lazyctx.Detached{Values: ctx},
		guard:  g,
		lease:  c.Lease,
		number: c.Record.Attempt,
		tries:  c.Record.Attempt - c.Record.releasedAt(),
		steps:  slices.Clone(workSteps(c.Record.Steps)),
		began:  time.Now(),
	}
	a.inherited = a.steps
	var deadline time.Time
	if g.policy.Timeout > 0 {
		deadline = a.began.Add(g.policy.Timeout)
	}
	a.context.Init(&a.caller, deadline, g.timeouts)
	return a
}

// report tells the observers how the attempt goes.
func (a *Attempt) report(kind EventKind, err error) {
	a.guard.observe(a, Event{
		Kind: kind, Key: a.lease.Key, Fence: a.lease.Fence, Attempt: a.number, Took: time.Since(a.began), Err: err,
	})
}
