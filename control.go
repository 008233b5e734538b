package retrysafe

import (
	"context"
	"errors"
	"fmt"
)

// AttemptControl is the part of an attempt that adapters and stores use and that work has no need of. It is a value
// that refers to the attempt; get it with [Attempt.Control]. Its methods may be called from several goroutines.
//
// A store's InTx calls BeginTx, runs the work's function, and then calls either RolledBack, also after a panic, or
// CompleteIn.
type AttemptControl struct{ a *Attempt }

// Control returns what adapters and stores need of the attempt.
func (a *Attempt) Control() AttemptControl { return AttemptControl{a} }

// Lease returns the lease under which the attempt works. Its Fence is 0 if the attempt is not protected.
func (c AttemptControl) Lease() Lease { return c.a.lease }

// Guard returns the Guard that runs the attempt.
func (c AttemptControl) Guard() *Guard { return c.a.guard }

// Tries returns [Attempt.Number], counted from the last time that a person released the key ([ResolveRelease]) or
// reopened it ([Guard.Reopen]), which starts the count anew.
func (c AttemptControl) Tries() int { return c.a.tries }

// TookOver reports whether the attempt has taken the key over from one whose outcome is unknown.
func (c AttemptControl) TookOver() bool { return c.a.takeOver }

// Capture sets the function that returns the result which CompleteIn saves. Adapters call it before the work starts:
// for an HTTP handler f returns the response written so far. f is called once for each transaction, also for one that
// is rolled back, because what the work has answered inside of that transaction must not be part of a later one.
func (c AttemptControl) Capture(f func() (Result, error)) {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	c.a.capture = f
}

// Completed reports whether the work has completed the attempt inside a transaction of its own, by CompleteIn or by
// CompleteOpen. After CompleteOpen it asks the store, and reports false if that does not know.
func (c AttemptControl) Completed() bool {
	c.a.settle()
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	return c.a.saved != nil
}

// BeginTx says that a database transaction of the work begins, which is to complete the attempt. Call it before the
// transaction takes a connection. In the context that it returns, [Step] does not save results, but leaves them to the
// code that commits the transaction: steps returns them. So the result of a step is saved if and only if what it wrote
// in the transaction is. Until the transaction ends, Step refuses every other context.
//
// An attempt is completed once, so it has one such transaction; another may follow after RolledBack, or after an error
// of CompleteIn that is not marked [Unknown]. For all others BeginTx returns an error. It is [ErrLeaseLost] if the
// attempt has been completed; otherwise it is marked Unknown, because a corrected program can resume.
func (c AttemptControl) BeginTx(ctx context.Context) (inside context.Context, steps func() []StepResult, err error) {
	a := c.a
	if name, ok := StepFrom(ctx); ok {
		return nil, nil, Unknown(fmt.Errorf("retrysafe: a transaction that completes the attempt, inside of step %q: "+
			"no step can be saved after it: call InTx outside of the step, or the step inside InTx", name))
	}
	a.settle()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.saved != nil:
		return nil, nil, fmt.Errorf("retrysafe: a second transaction in one attempt, which the first has completed: "+
			"write everything in one, and call InTx or CompleteTx once: %w", ErrLeaseLost)
	case a.inTx != nil, a.inDoubt:
		return nil, nil, Unknown(errors.New("retrysafe: a second transaction in one attempt, while the first is open or " +
			"may have been committed: write everything in one, and call InTx or CompleteTx once"))
	}
	a.inTx = &txSteps{of: a}
	return context.WithValue(ctx, txStepsKey{}, a.inTx), a.inTx.all, nil
}

// CompleteIn lets a store complete the attempt inside a database transaction of the work: save gets what there is to
// write, writes it, and commits. When CompleteIn returns nil the attempt is over, and every request gets the saved
// result, whatever the work returns afterwards. After [ErrResultTooLarge] save is called again, with a smaller result:
// it returns that before it has written anything. What a [Sealer] has sealed is what save gets.
//
// It returns [ErrLeaseLost] if the attempt has already been completed or taken over, the capture function's error, or
// what save returned; then nothing is completed. After an error of save that is marked [Unknown] the attempt is in
// doubt. If s is another store than the Guard's, which has no such attempt, an ErrLeaseLost of save says so.
func (c AttemptControl) CompleteIn(s Store, save func(Lease, Result, Retention) error) error {
	a := c.a
	r, err := c.complete(s, save)
	if err != nil {
		if class, _ := markOf(err); class == ClassUnknown {
			c.InDoubt()
		} else {
			a.endTx()
		}
		return err
	}
	a.mu.Lock()
	a.saved = &r
	a.mu.Unlock()
	a.finish()
	return nil
}

// complete lets save write the result that the work has given so far, and returns it.
func (c AttemptControl) complete(s Store, save func(Lease, Result, Retention) error) (Result, error) {
	a := c.a
	r, err := c.captured()
	if err != nil {
		return r, err
	}
	r = a.guard.fit(r, a.guard.policy.MaxResult)
	err = r.saveBy(func(r Result) error {
		sealed, err := seal(a.guard.store, a.lease.Key, r, Sealer.SealResult)
		if err != nil {
			return err
		}
		return save(a.lease, sealed, a.guard.policy.RetentionOf(r))
	})
	if errors.Is(err, ErrLeaseLost) && !isStore(a.guard.store, s, a.lease.Key) {
		err = fmt.Errorf("the transaction is one of a %T, and the attempt's Guard was made with another store, a %T: "+
			"make the Guard with the store whose transaction completes the attempt, or, if the Guard's has shards, begin "+
			"the transaction in the one that has the key: its method StoreOf returns it (or, if that store is inside of "+
			"the Guard's, another attempt has taken over): %w", s, a.guard.store, err)
	}
	return r, err
}

// RolledBack says that a transaction which was to complete the attempt has been rolled back before CompleteIn. What the
// work has answered inside of it is forgotten.
func (c AttemptControl) RolledBack() {
	_, _ = c.captured()
	c.a.endTx()
}

// endTx notes that the transaction has been rolled back.
func (a *Attempt) endTx() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inTx = nil
}

// InDoubt says that a transaction of the work may have been committed without completing the attempt. From then on the
// key is not released, even if the work reports that nothing happened: it is abandoned instead.
func (c AttemptControl) InDoubt() {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	c.a.inDoubt = true
}

// SaveFailed reports whether a call to save the end of the attempt has failed. Then the store may still read the result
// after Do has returned.
func (c AttemptControl) SaveFailed() bool {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	return c.a.saveFailed
}

// CompletedElsewhere says that another process does the work and completes the attempt, under the same lease, in a
// transaction of its own: see [Lease.Token]. From then on the record decides how the attempt ended, not what the work
// returns. The Guard asks for the record before it saves a result, and when the store says that the lease is lost.
//
//   - If the attempt was completed, Do returns the saved result, whatever the work returned.
//     [Outcome.CompletedElsewhere] says so.
//   - Otherwise the attempt ends as the work says. Releasing or abandoning it is safe: what the other process does
//     later is refused, unless it completes the key first. If the work has succeeded, its result is saved so that it
//     does not run again, and observers are told [CompletionMissing].
//   - If the store does not answer in time, for example because the transaction of the other process holds the record,
//     Do returns a [Refusal] with [ErrInFlight], and the end is saved in the background.
//
// Call it before the work is handed over. It has no effect on an attempt that is not protected.
func (c AttemptControl) CompletedElsewhere() {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	c.a.remote = c.a.Protected()
}

// Discarded reports [AnswerDiscarded] to observers: err is what the work has answered, and nobody gets, because another
// process had completed the attempt otherwise.
func (c AttemptControl) Discarded(err error) { c.a.report(AnswerDiscarded, err) }

// NoteCall notes that this attempt makes the downstream call name with a request of that digest, and returns the digest
// that was noted first under the name; again is false if this is the first.
//
// A child key is derived from a name alone, so that it is the same on every attempt. Adapters that send child keys by
// themselves note each call, and refuse a second call of the same name with another digest,
// because both would be sent under one key.
// What is noted belongs to this attempt and is not saved; the next attempt starts with nothing noted.
func (c AttemptControl) NoteCall(name, digest string) (first string, again bool) {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	if first, again = c.a.calls[name]; again {
		return first, true
	}
	if c.a.calls == nil {
		c.a.calls = make(map[string]string)
	}
	c.a.calls[name] = digest
	return digest, false
}

// captured returns what the work has answered so far in its transaction.
func (c AttemptControl) captured() (Result, error) {
	c.a.mu.Lock()
	capture, saved := c.a.capture, c.a.saved
	c.a.mu.Unlock()
	switch {
	case saved != nil:
		return Result{}, fmt.Errorf("complete twice: %w", ErrLeaseLost)
	case capture == nil:
		return Result{}, errors.New("retrysafe: no result to save with the transaction: call SetResult first")
	}
	return capture()
}
