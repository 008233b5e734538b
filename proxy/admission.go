package proxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// admission decides which requests are served, and how much memory they may hold.
//
// If there is no slot or no memory for a new request, the request that has been waiting for its own client for
// longest is ended: its body does not arrive, or its answer is not read. A request that waits for the upstream or for
// the store is never ended. If there is none to end, the new request waits shortly and is then refused.
type admission struct {
	limits atomic.Pointer[Limits]
	// patience is for how long a request may wait for its own client before it can be ended for another one. It
	// decides how many new requests get a slot per second while attackers hold all slots and reconnect at once: with
	// one second instead of a quarter, an honest client among 5,500 attackers was refused four times out of five.
	patience time.Duration
	// longestQueued is for how long a new request waits for a slot or for memory.
	longestQueued time.Duration

	mu      sync.Mutex
	effects resource // slots for requests that may have an effect
	reads   resource // slots for requests with safe methods
	memory  resource // bytes
	holders []*holder
	callers map[string]int // requests in progress with a key, by caller

	keys keyQuota
}

const (
	// leavingTime is how long an ended request may take to return, before another one is ended instead.
	leavingTime = 250 * time.Millisecond
	// lookEvery bounds how often all requests are scanned for one to end, however many new ones arrive.
	lookEvery = 20 * time.Millisecond
	// maxQueued bounds how many requests wait for a slot, and maxQueuedBytes how many wait for memory, which may hold
	// some already. If one more comes, the oldest of them is refused.
	maxQueued, maxQueuedBytes = 128, 16
)

func newAdmission(l Limits) *admission {
	a := &admission{patience: 250 * time.Millisecond, longestQueued: 2 * time.Second, callers: map[string]int{}}
	a.keys.buckets = map[string]bucket{}
	a.limit(l)
	return a
}

// limit changes the limits. What requests hold, and what callers have used, counts for the new ones too.
func (a *admission) limit(l Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits.Store(&l)
	a.keys.limit(l.KeysPerCaller)
	a.effects.limit, a.reads.limit, a.memory.limit = int64(l.Concurrent), int64(l.Concurrent), l.Memory
	for _, r := range []*resource{&a.effects, &a.reads, &a.memory} {
		r.release(0) // there may be room now for those that wait
	}
}

// resource is a limited resource. It is guarded by the mutex of its admission.
type resource struct {
	limit, held int64
	queue       []*demand // the newest is served first: its client is still there

	looked time.Time     // when makeRoom last scanned the holders
	pause  time.Duration // what it returned then
}

// demand is what a request waits for.
type demand struct {
	n       int64
	granted bool
	decided chan struct{} // closed when it is granted or refused
}

func (r *resource) take(n int64) bool {
	if len(r.queue) > 0 || r.held+n > r.limit {
		return false
	}
	r.held += n
	return true
}

func (r *resource) release(n int64) {
	r.held -= n
	for len(r.queue) > 0 {
		newest := r.queue[len(r.queue)-1]
		if r.held+newest.n > r.limit {
			return
		}
		r.held += newest.n
		newest.granted = true
		r.remove(len(r.queue) - 1)
	}
}

// remove ends a demand, granted or not.
func (r *resource) remove(i int) {
	close(r.queue[i].decided)
	r.queue = slices.Delete(r.queue, i, i+1)
}

// enter gives h a slot, and reports whether there was one.
func (a *admission) enter(h *holder, slots *resource) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slots.take(1) && !a.queue(slots, 1) {
		return false
	}
	h.slots, h.index = slots, len(a.holders)
	a.holders = append(a.holders, h)
	return true
}

// leave says that h's handler has returned. The slot is free when h has given back its memory too; asynchronous work
// does that when it has ended.
func (a *admission) leave(h *holder) {
	h.end()
	a.mu.Lock()
	defer a.mu.Unlock()
	h.returned = true
	a.removeIfDone(h)
}

// take gives h n bytes of memory, or takes them back if n is negative. It reports whether there were enough.
func (a *admission) take(h *holder, n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case n <= 0:
		a.memory.release(-n)
	case !a.memory.take(n) && !a.queue(&a.memory, n):
		return false
	}
	h.bytes += n
	a.removeIfDone(h)
	return true
}

// removeIfDone frees the slot of a request that has returned and holds no memory. The mutex is held.
func (a *admission) removeIfDone(h *holder) {
	if !h.returned || h.bytes > 0 || h.slots == nil {
		return
	}
	last := len(a.holders) - 1
	a.holders[h.index] = a.holders[last]
	a.holders[h.index].index = h.index
	a.holders[last] = nil
	a.holders = a.holders[:last]
	a.leaveCaller(h)
	h.slots.release(1)
	h.slots = nil
	if h.generation != nil {
		h.generation.leave()
	}
}

// queue waits until n of r is free. The mutex is held before and after, but not while it waits.
func (a *admission) queue(r *resource, n int64) bool {
	if n > r.limit {
		return false
	}
	if len(r.queue) >= maxQueued || r == &a.memory && len(r.queue) >= maxQueuedBytes {
		r.remove(0)
	}
	d := &demand{n: n, decided: make(chan struct{})}
	r.queue = append(r.queue, d)
	latest := time.Now().Add(a.longestQueued)
	for {
		pause := min(a.makeRoom(r), time.Until(latest))
		if i := slices.Index(r.queue, d); i >= 0 && pause <= 0 {
			r.remove(i)
			r.release(0) // others may need less
		}
		a.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-d.decided:
		case <-timer.C:
		}
		timer.Stop()
		a.mu.Lock()
		if !slices.Contains(r.queue, d) {
			return d.granted
		}
	}
}

// makeRoom ends requests that wait for their own clients, those first that have waited for longest, until there is
// enough for the queue. It returns how long to wait until the next scan; 0: there is nothing to wait for.
func (a *admission) makeRoom(r *resource) time.Duration {
	now := time.Now()
	if since := now.Sub(r.looked); since >= lookEvery {
		r.looked, r.pause = now, a.evictFor(r, now)
	} else if r.pause > 0 { // scans hold the mutex, which requests need to leave
		return max(r.pause, lookEvery-since)
	}
	return r.pause
}

// evictFor is makeRoom without the bound on how often it scans.
func (a *admission) evictFor(r *resource, now time.Time) time.Duration {
	type stalled struct {
		*holder
		waiting time.Duration
	}
	short := r.held - r.limit
	for _, d := range r.queue {
		short += d.n
	}
	var all []stalled
	var next time.Duration // until the next request may be ended
	for _, h := range a.holders {
		held := a.heldBy(h, r)
		waiting, evicted := h.stalledAt(now)
		switch {
		case held == 0:
		case evicted > 0 && evicted < leavingTime:
			short -= held
		case evicted > 0 || waiting == 0:
		case waiting >= a.patience:
			all = append(all, stalled{h, waiting})
		case next == 0 || a.patience-waiting < next:
			next = a.patience - waiting
		}
	}
	slices.SortFunc(all, func(x, y stalled) int { return int(y.waiting - x.waiting) })
	for _, s := range all {
		if short <= 0 {
			break
		}
		if s.evict() {
			short -= a.heldBy(s.holder, r)
		} else { // some bytes have just moved, or it has ended
			next = lookEvery
		}
	}
	if short <= 0 {
		return leavingTime
	}
	return next
}

func (a *admission) heldBy(h *holder, r *resource) int64 {
	switch r {
	case &a.memory:
		return h.bytes
	case h.slots:
		return 1
	}
	return 0
}

// evictStalled ends every request that has been waiting for its own client for longer than a.patience.
func (a *admission) evictStalled() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for _, h := range a.holders {
		if waiting, _ := h.stalledAt(now); waiting >= a.patience {
			h.evict()
		}
	}
}
