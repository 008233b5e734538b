package proxy

import (
	"net/http"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/caller"
)

// enterCaller counts h, which has a slot, as a request of a caller. It reports whether the caller may have one more.
func (a *admission) enterCaller(h *holder, caller string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.callers[caller] >= a.limits.Load().ConcurrentPerCaller {
		return false
	}
	a.callers[caller]++
	h.caller = caller
	return true
}

// leaveCaller removes h from the count of its caller. The mutex is held.
func (a *admission) leaveCaller(h *holder) {
	switch n := a.callers[h.caller]; {
	case h.caller == "":
	case n <= 1:
		delete(a.callers, h.caller)
	default:
		a.callers[h.caller] = n - 1
	}
}

// keyQuota bounds how many new keys each caller uses. It has a bucket per caller, which drains at a constant rate.
// The number of buckets is bounded too: if there are more callers, those are dropped that have used least.
type keyQuota struct {
	perHour int // negative: no bound

	mu      sync.Mutex
	buckets map[string]bucket
}

// bucket is what a caller has used, as of a time.
type bucket struct {
	used float64
	at   time.Time
}

const (
	// burstShare is the fraction of an hour's keys that may be used at once: one tenth.
	burstShare = 10
	// maxBuckets bounds the number of buckets; lookedAt is how many are compared to find one to drop.
	maxBuckets = 10_000
	lookedAt   = 8
)

// use takes n keys from the quota of a caller, or gives them back if n is negative. If there are none left, it
// returns how long to wait.
func (q *keyQuota) use(caller string, n float64) time.Duration {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.perHour <= 0 {
		return 0
	}
	known, ok := q.buckets[caller]
	if !ok && len(q.buckets) >= maxBuckets {
		q.forget(now)
	}
	used := q.level(known, now)
	if over := used + n - max(float64(q.perHour)/burstShare, 1); n > 0 && over > 0 {
		return max(time.Duration(over*float64(time.Hour)/float64(q.perHour)), time.Second)
	}
	q.buckets[caller] = bucket{max(used+n, 0), now}
	return 0
}

// limit changes the bound. What callers have used counts for it too.
func (q *keyQuota) limit(perHour int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.perHour = perHour
}

// level returns what is left in a bucket that has drained until now.
func (q *keyQuota) level(b bucket, now time.Time) float64 {
	return max(b.used-now.Sub(b.at).Hours()*float64(q.perHour), 0)
}

// forget drops the caller that has used least, of some that are picked at random.
func (q *keyQuota) forget(now time.Time) {
	least, found, n := 0.0, "", 0
	for name, b := range q.buckets {
		if level := q.level(b, now); n == 0 || level < least {
			least, found = level, name
		}
		if n++; n == lookedAt {
			break
		}
	}
	delete(q.buckets, found)
}

// callerOf wraps a ScopeFunc so that the log entry of the request has the name of the caller, or why there is none.
func callerOf(scope httpsafe.ScopeFunc) httpsafe.ScopeFunc {
	return func(r *http.Request) (string, error) {
		name, err := scope(r)
		if entry := logEntryOf(r.Context()); entry != nil {
			if _, unknown := caller.Resolve(name, err); unknown != nil {
				entry.fail(unknown)
			} else if err == nil {
				entry.caller = name
			}
		}
		return name, err
	}
}

// quota is the httpsafe.QuotaFunc of every route; next is the one of the route's own options. If all callers share a
// scope, there is no caller to limit.
func (h *routeHandler) quota(next httpsafe.QuotaFunc) httpsafe.QuotaFunc {
	return func(r *http.Request, scope string) time.Duration {
		if entry := logEntryOf(r.Context()); entry != nil && entry.caller != "" {
			if !h.admission.enterCaller(entry.holder, entry.caller) {
				return time.Second
			}
			if h.admission.limits.Load().KeysPerCaller > 0 {
				if wait := h.admission.keys.use(entry.caller, 1); wait > 0 {
					return wait
				}
				entry.charged = true
			}
		}
		if next != nil {
			return next(r, scope)
		}
		return 0
	}
}

// settle gives a key back to the quota of its caller, unless it was a new key and work was done under it, or an inbox has
// accepted its request.
func (h *routeHandler) settle(entry *logEntry, last retrysafe.EventKind) {
	if !entry.charged || entry.inbox.accepted && !entry.inbox.known {
		return
	}
	switch last {
	case 0, retrysafe.AnswerReplayed, retrysafe.AnswerOmitted, retrysafe.InFlightRefused, retrysafe.WaitTimedOut,
		retrysafe.MismatchRefused, retrysafe.AbandonedRefused, retrysafe.NotReplayableRefused, retrysafe.StoreFailed,
		retrysafe.WorkReleased:
		h.admission.keys.use(entry.caller, -1)
	}
}
