package retrysafe

import (
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/internal/timerqueue"
)

// Heartbeats keep the lease alive while the work runs, and while its end is being saved. Attempts wait in a queue for
// their first heartbeat: work that ends within a third of its lease starts no goroutine and no timer, and does not call
// the store. Time counts from when the store was called: the lease may have begun then.

// firstBeat is an attempt's entry in the queue of first heartbeats.
type firstBeat struct {
	timerqueue.Entry
	attempt *Attempt
}

// Due implements timerqueue.Task.
func (b *firstBeat) Due() { b.attempt.beat() }

func (a *Attempt) startHeartbeat(asked time.Time) {
	a.firstBeat.attempt = a
	a.guard.firstBeats.Add(&a.firstBeat.Entry, &a.firstBeat, asked.Add(a.guard.beatEvery()))
}

// beatEvery is the time from one heartbeat to the next.
func (g *Guard) beatEvery() time.Duration { return g.policy.Lease / 3 }

// beat extends the lease and plans the next heartbeat. If the store fails, it is called again soon: even a lease that
// has run out can be extended, unless another attempt has taken the key over.
func (a *Attempt) beat() {
	if a.is(finished) {
		return
	}
	asked := time.Now()
	err := a.extend(a.guard.policy.Lease)
	switch {
	case a.is(finished):
		a.takeBack()
	case err == nil:
		a.plan(a.guard.beatEvery() - time.Since(asked))
	case errors.Is(err, ErrLeaseLost):
		a.end().heartbeatLost()
	default:
		a.plan(a.guard.policy.Lease / 10)
	}
}

func (a *Attempt) plan(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.state == finished:
	case a.timer == nil:
		a.timer = time.AfterFunc(d, a.beat)
	default:
		a.timer.Reset(d)
	}
}

// lose ends the work's context: another attempt has taken the key over, and nothing of this one will be saved.
func (a *Attempt) lose() {
	if a.is(working) { // after the work has ended, Complete returns ErrLeaseLost
		a.reportTaken() // before the work sees its context end
		a.context.End(ErrLeaseLost)
	}
}

// reportTaken tells observers once that the lease was lost. A heartbeat and the end of the work may both find that out.
func (a *Attempt) reportTaken() {
	a.mu.Lock()
	told := a.taken
	a.taken = true
	a.mu.Unlock()
	if !told {
		a.report(LeaseTaken, ErrLeaseLost)
	}
}

// workEnded notes that the work has returned: from here on Complete or Release tell whether the lease was kept. It
// returns the result that the work has saved itself, if there is one, and whether a transaction of it is in doubt.
func (a *Attempt) workEnded() (saved *Result, inDoubt bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == working {
		a.state = saving
	}
	a.ended = time.Now()
	return a.saved, a.inDoubt
}

// finish ends the heartbeats and wakes the requests of this process that wait for the key.
func (a *Attempt) finish() {
	a.stopHeartbeat()
	a.guard.waiting.wake(a.lease.Key)
}

func (a *Attempt) stopHeartbeat() {
	a.guard.firstBeats.Remove(&a.firstBeat.Entry)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = finished
	if a.timer != nil {
		a.timer.Stop()
	}
}

// giveUp ends the heartbeats and the lease, so that the key is abandoned at once. If that fails, the lease runs out by
// itself. It returns ErrLeaseLost if another attempt has the key.
func (a *Attempt) giveUp() error {
	a.mu.Lock()
	a.givenUp = true
	a.mu.Unlock()
	a.stopHeartbeat()
	defer a.guard.waiting.wake(a.lease.Key)
	return a.extend(0)
}

// takeBack ends the lease again after a heartbeat that was being sent when the attempt gave up.
func (a *Attempt) takeBack() {
	a.mu.Lock()
	givenUp := a.givenUp
	a.mu.Unlock()
	if givenUp {
		_ = a.extend(0)
	}
}

// extend calls the store for no longer than a third of the lease: a call that hangs would delay the next heartbeat.
func (a *Attempt) extend(d time.Duration) error {
	ctx := newCallContext(&a.caller, min(a.guard.storeTimeout, a.guard.beatEvery()))
	defer ctx.End(nil)
	err := a.guard.store.Extend(ctx, a.lease, d)
	a.guard.heard(err)
	return err
}

func (a *Attempt) is(s attemptState) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state == s
}
