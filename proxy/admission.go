package proxy

import (
	"slices"
	"sync"
	"time"
)

// admission decides which requests are worked on, and how much memory they may hold.
//
// When there is no place, or no memory, for a newcomer, the request that has been waiting for its own client for longest is ended
// in its favour: one whose body does not arrive, or whose answer is not read. What waits for the upstream or for the
// store is never ended. A newcomer is refused if there is no such request.
type admission struct {
	limits Limits
	// patience is for how long a request may wait for its own client before it can be ended in favour of another one. It decides how many
	// newcomers a second find a place while strangers hold all of them and come again at once: with a second instead of a quarter of one, an
	// honest client among 5,500 attackers was sent away four times out of five.
	patience time.Duration
	// longestQueued is for how long a newcomer waits for a place or for memory.
	longestQueued time.Duration

	mu      sync.Mutex
	effects resource // places for requests that may have an effect
	reads   resource // places for requests of safe methods
	memory  resource // bytes
	holders []*holder
	callers map[string]int // requests in progress with a key, by caller

	keys keyQuota
}

const (
	// leavingTime is what an ended request is given to leave, before others are ended in its stead.
	leavingTime = 250 * time.Millisecond
	// lookEvery bounds how often a crowd of newcomers has all requests looked at.
	lookEvery = 20 * time.Millisecond
	// maxQueued bounds how many newcomers wait for a place, and maxQueuedBytes how many wait for memory, who may hold some
	// already. The oldest is refused when one more comes.
	maxQueued, maxQueuedBytes = 128, 16
)

func newAdmission(l Limits) *admission {
	a := &admission{limits: l, patience: 250 * time.Millisecond, longestQueued: 2 * time.Second, callers: map[string]int{}}
	a.keys.perHour, a.keys.buckets = l.KeysPerCaller, map[string]bucket{}
	a.effects.limit, a.reads.limit, a.memory.limit = int64(l.Concurrent), int64(l.Concurrent), l.Memory
	return a
}

// resource is something of which there is only so much. It is guarded by its admission's mutex.
type resource struct {
	limit, held int64
	queue       []*demand // the newest is served first, so that a crowd does not keep everybody else waiting

	looked time.Time     // when makeRoom last looked at who holds it
	pause  time.Duration // what it then said
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

func (r *resource) giveBack(n int64) {
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

// enter gives h one of the places. It reports whether there was one.
func (a *admission) enter(h *holder, places *resource) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !places.take(1) && !a.queue(places, 1) {
		return false
	}
	h.places, h.index = places, len(a.holders)
	a.holders = append(a.holders, h)
	return true
}

// leave says that h's handler has returned. Its place is free when it has given back its memory too, which asynchronous work does
// when it has ended.
func (a *admission) leave(h *holder) {
	h.end()
	a.mu.Lock()
	defer a.mu.Unlock()
	h.returned = true
	a.removeIfDone(h)
}

// take gives h n bytes of memory, which is negative when it gives them back. It reports whether there were as many.
func (a *admission) take(h *holder, n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case n <= 0:
		a.memory.giveBack(-n)
	case !a.memory.take(n) && !a.queue(&a.memory, n):
		return false
	}
	h.bytes += n
	a.removeIfDone(h)
	return true
}

func (a *admission) removeIfDone(h *holder) {
	if !h.returned || h.bytes > 0 || h.places == nil {
		return
	}
	last := len(a.holders) - 1
	a.holders[h.index] = a.holders[last]
	a.holders[h.index].index = h.index
	a.holders[last] = nil
	a.holders = a.holders[:last]
	a.leaveCaller(h)
	h.places.giveBack(1)
	h.places = nil
}

// queue waits until n of r is free. The mutex is held before and after, not meanwhile.
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
			r.giveBack(0) // others may be content with less
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
// enough for the queue. It returns how long to wait until the next look; 0: there is nothing to wait for.
func (a *admission) makeRoom(r *resource) time.Duration {
	now := time.Now()
	if since := now.Sub(r.looked); since >= lookEvery {
		r.looked, r.pause = now, a.evictFor(r, now)
	} else if r.pause > 0 { // a crowd that looks again and again would hold up those who want to leave
		return max(r.pause, lookEvery-since)
	}
	return r.pause
}

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
	var next time.Duration // until another one may be ended
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
	case h.places:
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
