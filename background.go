package retrysafe

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// background repeats calls to the store that must not be lost: saving the end of an attempt, undoing a claim.
type background struct {
	ctx   context.Context
	stop  context.CancelFunc
	tasks *sync.WaitGroup
	undos chan struct{} // holds a value for each claim that is being undone
}

const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	maxUndos   = 256
)

func newBackground() background {
	ctx, stop := context.WithCancel(context.Background())
	return background{ctx: ctx, stop: stop, tasks: &sync.WaitGroup{}, undos: make(chan struct{}, maxUndos)}
}

// start calls try, with growing pauses, until it reports that it is done or the Guard is shut down; then it calls end.
func (b *background) start(try func() (done bool), end func()) {
	b.tasks.Go(func() {
		defer end()
		for pause := firstPause; b.sleep(pause); pause = min(2*pause, lastPause) {
			if try() {
				return
			}
		}
	})
}

// sleep waits for a random time between half of d and d. It returns false if the Guard is shut down.
func (b *background) sleep(d time.Duration) bool {
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-b.ctx.Done():
		return false
	}
}

func (b *background) wait() { b.tasks.Wait() }

// undoClaim gives up a claim whose answer was lost. The claim may have been made: it would then block its key for a
// lease and leave it abandoned, although nothing has run. undoClaim claims again as the same owner, which shows whether
// it was made, and gives the claim back. It tries no longer than the lease would last, and for maxUndos claims at once;
// the leases of further claims run out.
func (g *Guard) undoClaim(ctx context.Context, p ClaimParams) {
	select {
	case g.background.undos <- struct{}{}:
	default:
		return
	}
	parent := context.WithoutCancel(ctx)
	giveUpAt := time.Now().Add(p.Lease)
	g.background.start(func() bool {
		return g.undo(parent, p) == nil || time.Now().After(giveUpAt)
	}, func() { g.undoAgain(parent, p, p.Lease/16, giveUpAt) })
}

// undoAgain undoes a claim once more, after pauses that double, for as long as its lease would last: the claim may have
// been delayed on its way to the store, and arrive after it has been undone.
func (g *Guard) undoAgain(parent context.Context, p ClaimParams, pause time.Duration, giveUpAt time.Time) {
	if time.Until(giveUpAt) < pause {
		<-g.background.undos
		return
	}
	time.AfterFunc(pause, func() {
		if !g.enter() {
			return
		}
		defer g.leave()
		_ = g.undo(parent, p)
		g.undoAgain(parent, p, 2*pause, giveUpAt)
	})
}

func (g *Guard) undo(parent context.Context, p ClaimParams) error {
	call := g.callContext(parent)
	defer call.End(nil)
	c, err := g.store.Claim(call, p)
	if err == nil && c.Verdict == Acquired {
		err = g.restore(call, p, c)
	}
	if errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrStoreFull) {
		return nil // then this owner holds nothing
	}
	return err
}

// restore returns a claimed key to the state before the claim: a key that an earlier attempt abandoned stays
// abandoned, and one that a person has released stays released.
func (g *Guard) restore(ctx context.Context, p ClaimParams, c Claim) error {
	if p.TakeOver && c.Record.Attempt > 1 {
		if c.Record.releasedAt() != c.Record.Attempt-1 {
			return g.store.Extend(ctx, c.Lease, 0)
		}
		// Without this entry the next claim that is given back could not tell that the key was released, because this
		// attempt came after the release. If the entry is lost, the key is abandoned then, and a person decides again.
		_ = g.store.Checkpoint(ctx, c.Lease, newAuditEntry(leftReleased, "", "", c.Record))
	}
	return g.store.Release(ctx, c.Lease)
}
