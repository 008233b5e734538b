package memstore

import (
	"time"

	"github.com/retrysafe/retrysafe"
)

// overhead estimates the bytes that a record takes beside its strings and slices: itself and its entries in the index,
// in the order of arrival and in the schedule.
const overhead = 512

// record holds one record of a key. Its instants are readings of the store's clock. The bytes inside result and steps
// never change once they are stored, so that they can be read without the lock.
type record struct {
	key         retrysafe.Key
	digest      retrysafe.Digest
	fingerprint retrysafe.Fingerprint
	tags        retrysafe.Tags
	state       retrysafe.State
	swept       bool // result and steps have been dropped
	owner       retrysafe.Owner
	fence       int64
	attempt     int
	result      retrysafe.Result
	steps       []retrysafe.StepResult

	claimedAt time.Duration
	// endsAt is when the lease ends; of a released or ended record: when that was. The retention counts from it.
	endsAt time.Duration
	keep   retrysafe.Retention

	sightings []sighting

	firstFence int64   // the fence of the first claim
	older      *record // the record that the key had before
	prev, next *record // its neighbours in the ring Store.arrived: the next newer, the next older one
	place      int     // the place in Store.due, counted from 1; 0: not there yet
	bytes      int64   // what is counted in Store.bytes
}

// add makes r the newest record of its key, in front of older ones that Inspect still shows.
func (s *Store) add(d retrysafe.Digest, p *retrysafe.ClaimParams, now time.Duration) *record {
	r := &record{
		key: p.Key, digest: d, fingerprint: p.Fingerprint, tags: p.Tags, claimedAt: now, older: s.records[d],
		prev: &s.arrived, next: s.arrived.next,
	}
	r.prev.next, r.next.prev = r, r
	s.records[d] = r
	return r
}

// remove deletes r.
func (s *Store) remove(r *record) {
	if newest := s.records[r.digest]; newest != r {
		newest.unlink(r)
	} else if r.older != nil {
		s.records[r.digest] = r.older
	} else {
		delete(s.records, r.digest)
	}
	r.prev.next, r.next.prev = r.next, r.prev
	s.due.remove(r)
	s.bytes -= r.bytes
}

// unlink removes old, which is older than r, from the list of the key's records.
func (r *record) unlink(old *record) {
	for r.older != old {
		r = r.older
	}
	r.older = old.older
}

// changed keeps the schedule and the sum of bytes in step with r.
func (s *Store) changed(r *record) {
	s.due.put(r)
	s.bytes -= r.bytes
	r.bytes = r.size()
	s.bytes += r.bytes
}

func (r *record) size() int64 {
	n := overhead + len(r.key.Scope) + len(r.key.ID) + len(r.fingerprint) + len(r.tags.String()) + len(r.result.Meta) + len(r.result.Body)
	for _, step := range r.steps {
		n += len(step.Name) + len(step.Data)
	}
	return int64(n + len(r.sightings)*sightingSize)
}

// verdict returns what a claim of r finds. A new record has no state yet.
func (r *record) verdict(p *retrysafe.ClaimParams, now time.Duration) retrysafe.Verdict {
	same := r.fingerprint == p.Fingerprint
	switch {
	case r.state == 0, r.heldBy(p.Owner):
		return retrysafe.Acquired
	case r.state.Ended():
		return retrysafe.Done
	case r.leaseRuns(now):
		return retrysafe.InFlight
	case r.state == retrysafe.Released && same:
		return retrysafe.Acquired
	case r.state == retrysafe.Released:
		return retrysafe.InFlight
	case p.TakeOver && same:
		return retrysafe.Acquired
	}
	return retrysafe.Abandoned
}

func (r *record) heldBy(o retrysafe.Owner) bool { return r.state == retrysafe.Pending && r.owner == o }

func (r *record) leaseRuns(now time.Duration) bool {
	return r.state == retrysafe.Pending && now < r.endsAt
}

// expired reports whether the key's retention has passed, so that the record takes no part in claims.
func (r *record) expired(now time.Duration) bool { return now >= after(r.endsAt, r.keep.Key) }

// readable reports whether people may read the record: while it takes part in claims, and, if the work has ended,
// until Audit has passed.
func (r *record) readable(now time.Duration) bool {
	return !r.expired(now) || r.state.Ended() && now < after(r.endsAt, r.keep.Audit)
}

// forClaim returns the record as Claim shows it: with the steps of work that has not ended, or with the answer while it
// may be replayed. It shares its bytes with r.
func (r *record) forClaim(now time.Duration) retrysafe.Record {
	v := r.summary(now)
	if !r.state.Ended() {
		v.Steps = r.steps
	} else if v.ReplayLeft > 0 {
		v.Result = r.result
	}
	return v
}

// forPeople returns the record as Inspect shows it: complete until Audit has passed. It shares its bytes with r.
func (r *record) forPeople(now time.Duration) retrysafe.Record {
	v := r.summary(now)
	if !r.state.Ended() || v.AuditLeft > 0 {
		v.Result, v.Steps = r.result, r.steps
	}
	for _, seen := range r.sightings {
		v.Sightings = append(v.Sightings, seen.view(now))
	}
	return v
}

// summary returns the record without steps, Meta and Body.
func (r *record) summary(now time.Duration) retrysafe.Record {
	v := retrysafe.Record{
		Key:         r.key,
		Fingerprint: r.fingerprint,
		State:       r.state,
		Fence:       r.fence,
		FirstFence:  r.firstFence,
		Attempt:     r.attempt,
		Result:      retrysafe.Result{Failed: r.result.Failed, Code: r.result.Code, Omitted: r.result.Omitted},
		Age:         now - r.claimedAt,
		Tags:        r.tags,
	}
	if r.leaseRuns(now) {
		v.LeaseLeft = r.endsAt - now
		return v
	}
	if r.state != retrysafe.Pending {
		v.EndedAge = now - r.endsAt
	}
	v.ReplayLeft = left(now, after(r.endsAt, r.keep.Replay))
	v.KeyLeft = left(now, after(r.endsAt, r.keep.Key))
	v.AuditLeft = left(now, after(r.endsAt, r.keep.Audit))
	return v
}

// left returns the time from now until end; 0 once it has passed.
func left(now, end time.Duration) time.Duration { return max(0, end-now) }
