package retrysafe

import (
	"context"
	"errors"
	"sync"
	"time"
)

// rooms are where requests wait for keys that others work on: one room a key and process. One of those inside, the
// doorman, asks the store for all of them, so that a thousand waiters cost the store what one costs.
type rooms struct {
	mu    sync.Mutex
	byKey map[Key]*room
}

type room struct {
	fingerprint Fingerprint // of the attempt that is waited for
	waiters     int
	door        chan struct{} // holds one value, unless somebody is the doorman
	nudge       chan struct{} // an attempt in this process has ended: ask now
	answered    chan struct{} // closed once answer is set
	answer      Claim
}

// Pauses between the doorman's questions: polling grows slower, and where the store wakes us it only makes sure.
const (
	firstPoll   = 10 * time.Millisecond
	lastPoll    = 500 * time.Millisecond
	watchedPoll = 2 * time.Second
)

// errWaited ends a request's wait for another attempt.
var errWaited = errors.New("retrysafe: waited long enough")

// whileInFlight answers a request whose key another attempt works on: by refusing it, or by waiting until the store's
// answer changes, but no longer than limit.
func (g *Guard) whileInFlight(ctx context.Context, limit time.Duration, q *claimRequest, c Claim) (Claim, error) {
	if g.policy.OnInFlight.kind != inFlightWait {
		_, err := g.refuse(ctx, InFlightRefused, ErrInFlight, c.Record)
		return c, err
	}
	wait, stop := context.WithTimeoutCause(ctx, limit, errWaited)
	defer stop()
	c, err := g.wait(wait, q, c)
	switch {
	case err == nil || ctx.Err() == nil && wait.Err() == nil:
		return c, err
	case ctx.Err() != nil:
		return c, &callerLeft{ctx.Err()}
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
	room := g.rooms.enter(q.Key, c.Record.Fingerprint)
	defer g.rooms.leave(q.Key, room)
	select {
	case <-room.door:
		return g.keepDoor(ctx, room, q, c)
	case <-room.answered:
		return room.answer.clone(), nil
	case <-ctx.Done():
		return c, ctx.Err()
	}
}

// keepDoor asks the store until the answer changes. An answer that is good for all is given to all; whoever acquires
// the key goes to work, and whoever loses patience leaves; then another one keeps the door.
func (g *Guard) keepDoor(ctx context.Context, room *room, q *claimRequest, c Claim) (Claim, error) {
	changed, unwatch := g.watch(ctx, q.Key)
	defer unwatch()
	pause := firstPoll
	for {
		next, err := g.claim(ctx, q)
		switch {
		case err != nil:
			room.door <- struct{}{}
			return c, err
		case next.Verdict == Acquired:
			room.door <- struct{}{}
			return next, nil
		case next.Verdict != InFlight || next.Record.State == Released || !q.Fingerprint.Matches(next.Record.Fingerprint):
			g.rooms.close(q.Key, room, next)
			return next, nil
		}
		c = next
		if !g.pause(ctx, room, changed, min(pause, c.Record.LeaseLeft+time.Millisecond)) { // if it runs out there is news
			room.door <- struct{}{}
			return c, ctx.Err()
		}
		pause = g.nextPause(pause, changed != nil)
	}
}

// watch has the store wake us. Without that, or when it fails, polling will do.
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

// pause waits until there may be news, and reports whether to go on.
func (g *Guard) pause(ctx context.Context, room *room, changed <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
	case <-room.nudge:
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

// enter returns the room for a key whose running attempt has this fingerprint.
func (r *rooms) enter(k Key, f Fingerprint) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.byKey[k]
	if !ok || found.fingerprint != f {
		found = newRoom(f)
		if r.byKey == nil {
			r.byKey = map[Key]*room{}
		}
		r.byKey[k] = found
	}
	found.waiters++
	return found
}

func newRoom(f Fingerprint) *room {
	room := &room{
		fingerprint: f,
		door:        make(chan struct{}, 1),
		nudge:       make(chan struct{}, 1),
		answered:    make(chan struct{}),
	}
	room.door <- struct{}{}
	return room
}

// leave forgets the room when the last one has left.
func (r *rooms) leave(k Key, room *room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	room.waiters--
	if room.waiters == 0 && r.byKey[k] == room {
		delete(r.byKey, k)
	}
}

// close gives the answer to everybody inside, a copy each; who comes later gets a new room.
func (r *rooms) close(k Key, room *room, answer Claim) {
	r.mu.Lock()
	if r.byKey[k] == room {
		delete(r.byKey, k)
	}
	alone := room.waiters == 1
	r.mu.Unlock()
	if alone {
		return
	}
	room.answer = answer.clone() // the doorman's own is the doorman's to change
	close(room.answered)
}

// wake nudges the doorman of the key's room, if there is one.
func (r *rooms) wake(k Key) {
	r.mu.Lock()
	found := r.byKey[k]
	r.mu.Unlock()
	if found == nil {
		return
	}
	select {
	case found.nudge <- struct{}{}:
	default:
	}
}
