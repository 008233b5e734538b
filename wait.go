package retrysafe

import (
	"context"
	"errors"
	"sync"
	"time"
)

// waiting holds the requests of this process that wait for another attempt at their key. One of the waiters of a key,
// the poller, asks the store for all of them, so that a thousand waiters cost the store what one costs.
type waiting struct {
	mu    sync.Mutex
	byKey map[Key]*waiters
}

// waiters are the requests that wait for one key.
type waiters struct {
	fingerprint Fingerprint // of the attempt that is waited for
	count       int
	poller      chan struct{} // holds one value, unless one of the waiters is the poller
	wake        chan struct{} // holds a value if an attempt in this process has ended: poll now
	answered    chan struct{} // closed once answer is set
	answer      Claim
}

// Pauses between two polls. They grow; if the store reports changes (Watcher), polling is only a safeguard.
const (
	firstPoll   = 10 * time.Millisecond
	lastPoll    = 500 * time.Millisecond
	watchedPoll = 2 * time.Second
)

// errWaited ends a request's wait for another attempt.
var errWaited = errors.New("retrysafe: waited long enough")

// whileInFlight answers a request whose key another attempt works on: by refusing it, or by waiting until the store's
// answer changes.
func (g *Guard) whileInFlight(ctx context.Context, r Request, q *claimRequest, c Claim) (Claim, error) {
	if g.policy.OnInFlight.kind != inFlightWait {
		_, err := g.refuse(ctx, InFlightRefused, ErrInFlight, c.Record)
		return c, err
	}
	if !q.hasWaited {
		q.hasWaited = true
		g.seen(SeenWaiting, c.Record, 0)
	}
	limit := g.patience(r) - time.Since(q.began)
	caller := r.waitContext(ctx)
	wait, stop := context.WithTimeoutCause(caller, limit, errWaited)
	defer stop()
	c, err := g.wait(wait, q, c)
	switch {
	case err == nil || caller.Err() == nil && wait.Err() == nil:
		return c, err
	case caller.Err() != nil:
		return c, &callerLeft{caller.Err()}
	}
	_, err = g.refuse(ctx, WaitTimedOut, ErrWaitTimeout, c.Record)
	return c, err
}

// patience is how long a request waits for other attempts, one after the other.
func (g *Guard) patience(r Request) time.Duration {
	if r.WaitAtMost > 0 {
		return min(g.policy.OnInFlight.max, r.WaitAtMost)
	}
	return g.policy.OnInFlight.max
}

// wait returns the first answer that is not "in flight".
func (g *Guard) wait(ctx context.Context, q *claimRequest, c Claim) (Claim, error) {
	if ctx.Err() != nil { // no time to wait at all
		return c, ctx.Err()
	}
	w := g.waiting.join(q.Key, c.Record.Fingerprint)
	defer g.waiting.leave(q.Key, w)
	select {
	case <-w.poller:
		return g.poll(ctx, w, q, c)
	case <-w.answered:
		return w.answer.clone(), nil
	case <-ctx.Done():
		return c, ctx.Err()
	}
}

// poll asks the store until the answer changes. An answer that holds for all waiters is given to all. If the poller
// acquires the key, or its wait ends, another waiter becomes the poller.
func (g *Guard) poll(ctx context.Context, w *waiters, q *claimRequest, c Claim) (Claim, error) {
	changed, unwatch := g.watch(ctx, q.Key)
	defer unwatch()
	pause := firstPoll
	for {
		next, err := g.claim(ctx, q)
		switch {
		case err != nil:
			w.poller <- struct{}{}
			return c, err
		case next.Verdict == Acquired:
			w.poller <- struct{}{}
			return next, nil
		case next.Verdict != InFlight || next.Record.State == Released || !q.Fingerprint.Matches(next.Record.Fingerprint):
			g.waiting.finish(q.Key, w, next)
			return next, nil
		}
		c = next
		untilAbandoned := c.Record.LeaseLeft + time.Millisecond
		if !g.pause(ctx, w, changed, min(pause, untilAbandoned)) {
			w.poller <- struct{}{}
			return c, ctx.Err()
		}
		pause = g.nextPause(pause, changed != nil)
	}
}

// watch returns a channel that receives a value when the key may have changed; nil if the store is no Watcher or its
// Watch fails, since polling alone suffices.
func (g *Guard) watch(ctx context.Context, k Key) (<-chan struct{}, func()) {
	if g.watcher == nil {
		return nil, func() {}
	}
	changed, stop, err := g.watcher.Watch(ctx, k)
	if err != nil {
		return nil, func() {}
	}
	return changed, stop
}

// pause waits until the answer may have changed. It returns false if ctx ended.
func (g *Guard) pause(ctx context.Context, w *waiters, changed <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
	case <-w.wake:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}

func (g *Guard) nextPause(d time.Duration, watched bool) time.Duration {
	if watched {
		return watchedPoll
	}
	return min(2*d, lastPoll)
}

// join adds a waiter for a key whose running attempt has this fingerprint.
func (all *waiting) join(k Key, f Fingerprint) *waiters {
	all.mu.Lock()
	defer all.mu.Unlock()
	w, ok := all.byKey[k]
	if !ok || w.fingerprint != f {
		w = newWaiters(f)
		if all.byKey == nil {
			all.byKey = map[Key]*waiters{}
		}
		all.byKey[k] = w
	}
	w.count++
	return w
}

func newWaiters(f Fingerprint) *waiters {
	w := &waiters{
		fingerprint: f,
		poller:      make(chan struct{}, 1),
		wake:        make(chan struct{}, 1),
		answered:    make(chan struct{}),
	}
	w.poller <- struct{}{}
	return w
}

// leave removes a waiter, and forgets the key after its last one.
func (all *waiting) leave(k Key, w *waiters) {
	all.mu.Lock()
	defer all.mu.Unlock()
	w.count--
	if w.count == 0 && all.byKey[k] == w {
		delete(all.byKey, k)
	}
}

// finish gives the answer to all waiters, a copy each. Requests that come later form a new group.
func (all *waiting) finish(k Key, w *waiters, answer Claim) {
	all.mu.Lock()
	if all.byKey[k] == w {
		delete(all.byKey, k)
	}
	alone := w.count == 1
	all.mu.Unlock()
	if alone {
		return
	}
	w.answer = answer.clone() // the poller may change its own
	close(w.answered)
}

// wake makes the poller of the key, if there is one, ask the store at once.
func (all *waiting) wake(k Key) {
	all.mu.Lock()
	w := all.byKey[k]
	all.mu.Unlock()
	if w == nil {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
