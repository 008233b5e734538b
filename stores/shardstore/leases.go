package shardstore

import (
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// leases are those that the attempts of this process hold in the second store of a move, found by the lease in the
// store that decides, and those that it has tried to give back without an answer. The zero value has none.
type leases struct {
	mu       sync.Mutex
	second   map[leaseID]*held
	returned map[leaseID]*returned
	clear    time.Time // when to look next for those that nobody will ask for
}

type leaseID struct {
	key   retrysafe.Digest
	owner retrysafe.Owner
	fence int64
}

type held struct {
	lease retrysafe.Lease
	until time.Time // when it runs out, unless it is extended
}

// returned is a lease whose return got no answer: the call may arrive late, and end the lease of a request that claims
// the key under it again. So nobody works under it any more.
type returned struct {
	tookOver bool // as in part
	until    time.Time
}

// forgetAfter is how long after its end a lease is known: an attempt whose heartbeats failed may still complete.
// forgetEvery is how often leases are forgotten.
const (
	forgetAfter = time.Hour
	forgetEvery = time.Minute
)

func idOf(l retrysafe.Lease) leaseID { return leaseID{l.Key.Digest(), l.Owner, l.Fence} }

// keep notes that who holds first holds second too, for d from now.
func (h *leases) keep(first, second retrysafe.Lease, d time.Duration) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tidy(now)
	h.second[idOf(first)] = &held{second, now.Add(d)}
}

// tidy forgets what nobody will ask for.
func (h *leases) tidy(now time.Time) {
	if h.second == nil {
		h.second = make(map[leaseID]*held)
	}
	if h.returned == nil {
		h.returned = make(map[leaseID]*returned)
	}
	if now.Before(h.clear) {
		return
	}
	maps.DeleteFunc(h.second, func(_ leaseID, l *held) bool { return now.Sub(l.until) > forgetAfter })
	maps.DeleteFunc(h.returned, func(_ leaseID, l *returned) bool { return now.Sub(l.until) > forgetAfter })
	h.clear = now.Add(forgetEvery)
}

// doubt notes that a lease was given back without an answer.
func (h *leases) doubt(l retrysafe.Lease, tookOver bool) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tidy(now)
	h.returned[idOf(l)] = &returned{tookOver, now}
}

// doubted returns what is known of a lease that was given back without an answer; nil if this one was not.
func (h *leases) doubted(l retrysafe.Lease) *returned {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.returned[idOf(l)]
}

func (h *leases) of(first retrysafe.Lease) (retrysafe.Lease, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.second[idOf(first)]; l != nil {
		return l.lease, true
	}
	return retrysafe.Lease{}, false
}

func (h *leases) extend(first retrysafe.Lease, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.second[idOf(first)]; l != nil {
		l.until = time.Now().Add(d)
	}
}

func (h *leases) forget(first retrysafe.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.second, idOf(first))
}

// inSecond returns the owner as which an owner claims in the second store. It is another one, so that a lease is worth
// nothing in the other store: a transaction in the store that does not decide completes nothing.
func inSecond(o retrysafe.Owner) retrysafe.Owner {
	sum := sha256.Sum256(append([]byte("retrysafe: second store of a move\n"), o[:]...))
	return retrysafe.Owner(sum[:16])
}
