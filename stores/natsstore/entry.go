package natsstore

import (
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

const (
	// margin is how much longer than needed a server keeps an entry. Fences grow as long as the clock is not set back
	// by more, and no entry is deleted early if it was.
	margin = time.Hour
	// longest is the longest TTL. An entry that is needed for longer gets none.
	longest = 100 * 365 * 24 * time.Hour
)

// record is one record of a key: the newest, or one that has ended and is kept for people.
//
// The server gives each entry the time at which it was stored. An instant that is set by a write is written relative
// to that time, because the writer does not know it. After reading all instants are absolute.
type record struct {
	storekit.Record
	claimedNow  bool // ClaimedAt is relative to the time at which the entry is stored
	endsFromNow bool // EndsAt is
	lapsed      bool // the lease was over when the entry was stored
	steps       []retrysafe.StepResult
}

// entry is what the bucket holds of one key, and one version of it: entries are changed in copies. A State of 0 means
// that the key is free and that only its last fence, and what is kept for people, are left.
type entry struct {
	record
	key   retrysafe.Key
	older []record         // records that have ended, the newest first
	rev   uint64           // the stream's sequence number of this version; 0: there is no entry
	at    storekit.Instant // when the server stored it
	// endsHere says that EndsAt counts from at, by the same clock.
	endsHere bool
	parts    parts // where the content is, if it does not fit into the entry
	// lost says that a part is missing: there is no content then, and only what people decide may change the entry.
	lost bool
}

// absent reports whether there is no record that could be over.
func (e *entry) absent() bool { return e.State == 0 }

// stored returns a time that has passed by the clock of the server that has set EndsAt.
func (e *entry) stored(tolerance int64) storekit.Instant {
	switch {
	case e.endsHere:
		return e.at
	case e.lapsed, e.State != retrysafe.Pending: // what was over stays over, whatever another server's clock says
		return max(e.at-tolerance, e.EndsAt)
	}
	return e.at - tolerance
}

// overs says what is over.
type overs struct{ lease, retention bool }

// over reports what is over at a time.
func (e *entry) over(now storekit.Instant) overs {
	return overs{
		lease:     e.State == retrysafe.Pending && !e.LeaseRuns(now),
		retention: e.Expired(now),
	}
}

// live reports whether there is a record that takes part in claims.
func (e *entry) live(now storekit.Instant) bool { return !e.absent() && !e.Expired(now) }

// next returns a copy for the next version, in which the caller replaces what changes.
func (e *entry) next(now storekit.Instant) *entry {
	n := *e
	n.lost = false
	n.lapsed = e.over(now).lease
	n.older = slices.DeleteFunc(slices.Clone(e.older), func(r record) bool { return !r.Audited(now) })
	return &n
}

// setLease makes the lease run for d from the moment at which the entry is stored.
func (e *entry) setLease(d time.Duration) {
	e.EndsAt, e.endsFromNow, e.lapsed = storekit.Micros(d), true, false
}

// end makes the record end at the moment at which the entry is stored.
func (e *entry) end(s retrysafe.State) {
	e.State, e.EndsAt, e.endsFromNow, e.lapsed = s, 0, true, false
}

// free leaves only what must outlive the record, and of what is kept for people as much as fits into room bytes, but at
// least the newest: each write of the key sends all of it, and a key that is claimed again and again must stay usable.
func (e *entry) free(now storekit.Instant, room int) {
	if !e.absent() && e.Audited(now) {
		e.older = append([]record{e.record}, e.older...)
		for i := range e.older {
			if room -= e.older[i].size(); i > 0 && room < 0 {
				e.older = e.older[:i]
				break
			}
		}
	}
	e.record = record{Record: storekit.Record{Owner: e.Owner, Fence: e.Fence}}
}

// settle makes the instants absolute.
func (r *record) settle(at storekit.Instant) {
	if r.claimedNow {
		r.ClaimedAt += at
	}
	if r.endsFromNow {
		r.EndsAt += at
	}
	r.claimedNow, r.endsFromNow = false, false
}

// hasStep reports whether a step of this name is saved.
func (r *record) hasStep(name string) bool {
	return slices.ContainsFunc(r.steps, func(s retrysafe.StepResult) bool { return s.Name == name })
}

// ttl returns how long a server must keep the entry if it is stored now; 0: for ever.
func (e *entry) ttl(now storekit.Instant) time.Duration {
	needed := e.needed(now)
	for i := range e.older {
		needed = max(needed, e.older[i].needed(now))
	}
	if d := storekit.Duration(needed); d < longest {
		return (d + margin).Truncate(time.Second) + time.Second
	}
	return 0
}

// needed returns for how many microseconds from now the record is needed.
func (r *record) needed(now storekit.Instant) int64 {
	if r.State == 0 {
		return 0
	}
	keep := r.Keep.Key
	if r.State.Ended() {
		keep = max(keep, r.Keep.Audit)
	}
	if r.endsFromNow {
		now = 0
	}
	return max(r.EndsAt+keep-now, 0)
}

// forClaim is the record as Claim shows it.
func (e *entry) forClaim(now storekit.Instant) retrysafe.Record {
	v := e.ForClaim(e.key, now, e.steps)
	storekit.Unshare(&v)
	return v
}

// forPeople is a record as Inspect shows it.
func (r *record) forPeople(k retrysafe.Key, now storekit.Instant) retrysafe.Record {
	v := r.ForPeople(k, now, r.steps)
	storekit.Unshare(&v)
	return v
}
