package retrysafe

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// background repeats calls to the store that must not be lost: saving the end of an attempt, undoing a claim.
type background struct {
	ctx   context.Context
	stop  context.CancelFunc
	tasks *sync.WaitGroup

	failing atomic.Bool // a call to the store has failed since all was repeated

	mu       sync.Mutex
	repeated time.Time // when all was repeated
	undos    undoQueue
	undoing  int         // goroutines that take claims from undos
	timer    *time.Timer // of the first claim in undos
}

const (
	firstPause    = 50 * time.Millisecond
	lastPause     = 5 * time.Second
	lastUndoPause = 30 * time.Second
	// maxUndos bounds the claims that wait to be undone: about 64 MiB. The leases of further claims run out.
	maxUndos = 1 << 17
	// maxUndoing is how many claims are undone at once. Stores for many processes send those together.
	maxUndoing = 128
)

// jitter returns a random time between half of d and d. It is a variable so that a simulation can be repeated.
var jitter = func(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

func newBackground() background {
	ctx, stop := context.WithCancel(context.Background())
	return background{ctx: ctx, stop: stop, tasks: &sync.WaitGroup{}}
}

// start calls try, with growing pauses or when now has a value, until it reports that it is done or the Guard is shut
// down; then it calls end.
func (b *background) start(now <-chan struct{}, try func() (done bool), end func()) {
	b.tasks.Go(func() {
		defer end()
		for pause := firstPause; b.sleepUntil(now, pause); pause = min(2*pause, lastPause) {
			if try() {
				return
			}
		}
	})
}

// sleep waits for a random time between half of d and d. It returns false if the Guard is shut down.
func (b *background) sleep(d time.Duration) bool { return b.sleepUntil(nil, d) }

// sleepUntil is sleep that a value in now ends.
func (b *background) sleepUntil(now <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(jitter(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-now:
		return true
	case <-b.ctx.Done():
		return false
	}
}

func (b *background) wait() { b.tasks.Wait() }

// heard notes whether a call to the store has failed. When a call succeeds after that, all that waits to be repeated is
// repeated at once: until then other processes find the keys in question in flight, or abandoned.
func (e *engine) heard(err error) {
	b := &e.background
	switch {
	case err != nil && !errors.Is(err, ErrLeaseLost) && !errors.Is(err, ErrStoreFull):
		b.failing.Store(true)
		return
	case err != nil || !b.failing.Load():
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.repeated) < 4*firstPause { // a store that fails now and then
		return
	}
	b.repeated = now
	b.failing.Store(false)
	e.unsaved.saveAll()
	for _, u := range b.undos {
		if !u.undone {
			u.due = now
		}
	}
	heap.Init(&b.undos)
	e.undoDue()
}

// undo is a claim whose answer was lost.
type undo struct {
	guard  *Guard
	params ClaimParams
	due    time.Time
	pause  time.Duration // until the next try
	undone bool          // at least once
	until  time.Time     // until then the claim may still reach the store
}

// undoQueue holds claims to undo, the next one first. It implements heap.Interface.
type undoQueue []*undo

func (q undoQueue) Len() int           { return len(q) }
func (q undoQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q undoQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *undoQueue) Push(u any) { *q = append(*q, u.(*undo)) }

// Pop implements heap.Interface.
func (q *undoQueue) Pop() any {
	last := len(*q) - 1
	u := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return u
}

// undoClaim gives up a claim whose answer was lost. The claim may have been made: it would then block its key for a
// lease and leave it abandoned, although nothing has run. undoClaim claims again as the same owner, which shows whether
// it was made, and gives the claim back. It tries until it succeeds, because the end of the lease does not free the key;
// and then a few times more for as long as the lease would last, because the claim may have been delayed on its way to
// the store and arrive after it has been undone. If the key has a record that cannot be read, it tries until the lease
// would have run out.
func (g *Guard) undoClaim(p ClaimParams) {
	b := &g.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.undos) >= maxUndos || b.ctx.Err() != nil {
		return
	}
	now := time.Now()
	b.tasks.Add(1)
	due := now.Add(jitter(firstPause))
	heap.Push(&b.undos, &undo{guard: g, params: p, due: due, pause: firstPause, until: now.Add(p.Lease)})
	g.undoDue()
}

// undoDue starts a goroutine if a claim is due to be undone, or else the timer for the next one. Call it with the lock.
func (e *engine) undoDue() {
	b := &e.background
	if len(b.undos) == 0 || b.undoing == maxUndoing {
		return
	}
	switch d := time.Until(b.undos[0].due); {
	case d <= 0:
		b.undoing++
		go e.undoNext()
	case b.timer == nil:
		b.timer = time.AfterFunc(d, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			e.undoDue()
		})
	default:
		b.timer.Reset(d)
	}
}

// undoNext undoes claims as long as any are due.
func (e *engine) undoNext() {
	b := &e.background
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.undos) > 0 && time.Until(b.undos[0].due) <= 0 {
		u := heap.Pop(&b.undos).(*undo)
		e.undoDue()
		b.mu.Unlock()
		err := u.try()
		b.mu.Lock()
		switch u.plan(err); {
		case b.ctx.Err() == nil && !u.due.IsZero():
			heap.Push(&b.undos, u)
		case !u.undone:
			b.tasks.Done()
		}
	}
	b.undoing--
	e.undoDue()
}

func (u *undo) try() error {
	if u.undone {
		if !u.guard.enter() { // after Shutdown the store may be closed
			return nil
		}
		defer u.guard.leave()
	}
	return u.guard.undo(u.params)
}

// plan sets when the claim is to be undone again; the zero time if it is not.
func (u *undo) plan(err error) {
	now := time.Now()
	hasRecord := errors.Is(err, ErrUnreadable) || errors.Is(err, ErrNotReplayable) // of another attempt, and it stays
	switch {
	case err != nil && !u.undone && now.After(u.until) && (hasRecord || u.guard.isClosed()): // Shutdown waits no longer
		u.due = time.Time{}
		return
	case err != nil && !u.undone:
		u.due, u.pause = now.Add(jitter(u.pause)), min(2*u.pause, lastUndoPause)
		return
	case !u.undone:
		u.undone, u.pause = true, u.params.Lease/16
		if more := now.Add(4 * u.pause); more.After(u.until) { // the store was away for as long
			u.until = more
		}
		u.guard.background.tasks.Done()
	}
	if u.due = now.Add(u.pause); u.due.After(u.until) {
		u.due = time.Time{}
	}
	u.pause *= 2
}

// dropUndos forgets the claims that wait to be undone.
func (e *engine) dropUndos() {
	b := &e.background
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.undos {
		if !u.undone {
			b.tasks.Done()
		}
	}
	b.undos = nil
}

func (g *Guard) undo(p ClaimParams) error {
	call := g.callContext(context.Background())
	defer call.End(nil)
	p.StateOnly = true
	c, err := g.store.Claim(call, p)
	if err == nil && c.Verdict == Acquired {
		if err = g.restore(call, p, c); err == nil {
			g.waiting.wake(p.Key)
		}
	}
	g.heard(err)
	if errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrStoreFull) {
		return nil // then this owner holds nothing
	}
	return err
}

// restore returns a claimed key to the state before the claim: a key that an earlier attempt abandoned stays
// abandoned, and one that a person has released stays released.
func (g *Guard) restore(ctx context.Context, p ClaimParams, c Claim) error {
	if c.Record.Attempt > 1 {
		if p.TakeOver && c.Record.releasedAt() != c.Record.Attempt-1 {
			return g.store.Extend(ctx, c.Lease, 0)
		}
		// Without this entry the next claim that is given back could not tell that the key was released, because this
		// attempt came after the release. If the entry is lost, the key is abandoned then, and a person decides again.
		_ = g.store.Checkpoint(ctx, c.Lease, newAuditEntry(leftReleased, "", "", c.Record))
	}
	return g.store.Release(ctx, c.Lease)
}
