package retrysafe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// unsaved holds the ends of attempts of this process that the store has failed to save. While an end waits here,
// requests for its key are answered from it and do not ask the store: after an outage that was longer than the lease,
// the store would say that the key is abandoned.
type unsaved struct {
	count atomic.Int64 // of byKey, so that a claim costs no more while there are none
	limit int          // of bytes

	mu    sync.Mutex
	byKey map[Key]*unsavedEnd
	bytes int
}

// unsavedEnd is an end that the store has failed to save.
type unsavedEnd struct {
	attempt *Attempt
	result  *Result       // nil: the end has none, or another process decides
	handOut time.Time     // when requests get the result although it is not saved
	retry   chan struct{} // holds a value if the end is to be saved at once
	over    chan struct{} // closed when saving has ended
	err     error         // why it ended without success; valid once over is closed

	mu     sync.Mutex
	failed chan struct{} // closed when the next try has failed
}

// unsavedError is the error of a claim that was not made, or whose verdict does not count, because an end of the key
// waits to be saved.
type unsavedError struct{ end *unsavedEnd }

func (*unsavedError) Error() string {
	return "retrysafe: an attempt has ended, and its end waits to be saved"
}

// unsavedEndOf returns the end that an unsavedError is about; nil for other errors.
func unsavedEndOf(err error) *unsavedEnd {
	if err == nil {
		return nil
	}
	if u := (*unsavedError)(nil); errors.As(err, &u) {
		return u.end
	}
	return nil
}

// add keeps the end of an attempt until it is removed. A result beyond the limit is kept, and saved, without its
// answer: that the work has run matters more.
func (u *unsaved) add(a *Attempt, r *Result) *unsavedEnd {
	e := &unsavedEnd{
		attempt: a,
		handOut: a.ended.Add(a.guard.policy.HoldUnsaved),
		retry:   make(chan struct{}, 1),
		over:    make(chan struct{}),
		failed:  make(chan struct{}),
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if r != nil {
		kept := a.guard.fit(*r, max(0, u.limit-u.bytes)).Clone()
		e.result = &kept
		u.bytes += kept.size()
	}
	if u.byKey == nil {
		u.byKey = map[Key]*unsavedEnd{}
	}
	u.byKey[a.lease.Key] = e
	u.count.Store(int64(len(u.byKey)))
	return e
}

// remove forgets an end, unless another end of the same key has replaced it.
func (u *unsaved) remove(e *unsavedEnd) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if e.result != nil {
		u.bytes -= e.result.size()
	}
	if k := e.attempt.lease.Key; u.byKey[k] == e {
		delete(u.byKey, k)
		u.count.Store(int64(len(u.byKey)))
	}
}

// check returns an unsavedError if an end of the key waits to be saved.
func (u *unsaved) check(k Key) error {
	if u.count.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if e := u.byKey[k]; e != nil {
		return &unsavedError{e}
	}
	return nil
}

// saveAll makes all ends be saved at once.
func (u *unsaved) saveAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, e := range u.byKey {
		e.saveNow()
	}
}

// Unsaved returns the number of ends of attempts that this process has failed to save and goes on saving, and the bytes
// of their results. Their keys are abandoned if the process ends before they are saved.
func (e *engine) Unsaved() (ends, bytes int) {
	e.unsaved.mu.Lock()
	defer e.unsaved.mu.Unlock()
	return len(e.unsaved.byKey), e.unsaved.bytes
}

func (e *unsavedEnd) saveNow() {
	select {
	case e.retry <- struct{}{}:
	default:
	}
}

// nextFailure returns a channel that is closed when the next try to save the end has failed.
func (e *unsavedEnd) nextFailure() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed
}

func (e *unsavedEnd) hasFailed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.failed)
	e.failed = make(chan struct{})
}

// hold waits until saving has ended, or the caller may have its answer before that. It reports whether the end is saved,
// and returns ErrLeaseLost if it never will be.
func (e *unsavedEnd) hold() (saved bool, err error) {
	t := time.NewTimer(time.Until(e.handOut))
	defer t.Stop()
	select {
	case <-e.over:
	case <-t.C:
	}
	switch {
	case !e.isOver():
		return false, nil
	case errors.Is(e.err, ErrLeaseLost):
		return false, ErrLeaseLost
	}
	return e.err == nil, nil
}

func (e *unsavedEnd) isOver() bool {
	select {
	case <-e.over:
		return true
	default:
		return false
	}
}

// isHandedOut reports whether requests get the result although it is not saved.
func (e *unsavedEnd) isHandedOut() bool { return e.result != nil && !time.Now().Before(e.handOut) }

// record is what the store would know of the key if the end were saved.
func (e *unsavedEnd) record() Record {
	a := e.attempt
	known := Record{
		Key: a.lease.Key, Fingerprint: a.fingerprint, State: Pending, Fence: a.lease.Fence, Attempt: a.number,
		Age: time.Since(a.began),
	}
	if e.result != nil {
		known.Result = e.result.Clone()
	}
	keep := a.guard.policy.RetentionOf(known.Result)
	known.ReplayLeft, known.KeyLeft = keep.Replay, keep.Key
	return known
}

// longestTry is how long a request waits for one try to save the end of its key, before it gets the unsaved answer.
const longestTry = time.Second

// whileUnsaved answers a request for a key whose end waits to be saved. It has the end saved first, if the store works
// again, and returns false then: the store knows the answer. Until the answer may be handed out unsaved, the attempt is
// in flight.
func (g *Guard) whileUnsaved(
	ctx context.Context, r Request, q *claimRequest, e *unsavedEnd,
) (out Outcome, err error, answered bool) {
	if !g.matches(ctx, r, e.record()) {
		out, err = g.refuse(ctx, MismatchRefused, ErrMismatch, e.record())
		return out, err, true
	}
	waits, waiting := g.policy.OnInFlight.kind == inFlightWait, r.waitContext(ctx)
	failed := e.nextFailure()
	e.saveNow()
	var patience, handOut <-chan time.Time
	if waits && !e.isHandedOut() {
		failed, patience = nil, time.After(g.patience(r)-time.Since(q.began))
	}
	if e.result != nil {
		handOut = time.After(max(time.Until(e.handOut), longestTry))
	}
	select {
	case <-e.over:
	case <-handOut:
	case <-failed:
	case <-patience:
	case <-waiting.Done():
	}
	switch {
	case e.isOver():
		return Outcome{}, nil, false
	case e.isHandedOut():
		out, err = g.replay(ctx, e.record())
		out.Stored = false
	case waiting.Err() != nil:
		err = &callerLeft{waiting.Err()}
	case waits:
		out, err = g.refuse(ctx, WaitTimedOut, ErrWaitTimeout, e.record())
	default:
		out, err = g.refuse(ctx, InFlightRefused, ErrInFlight, e.record())
	}
	return out, err, true
}
