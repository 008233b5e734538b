package storekit

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Instant is a time on a store's clock, in microseconds since 1970.
type Instant = int64

// Record is a row about a key as the SQL stores keep it.
type Record struct {
	State             retrysafe.State
	Owner             retrysafe.Owner // of the last claim
	Fence, FirstFence int64           // of the last claim and of the first one
	Attempt           int64
	ClaimedAt         Instant // when the first claim was
	EndsAt            Instant // of the lease while the record is pending; after that, when it ended or was released
	Keep              Keep    // counted from EndsAt
	Code              int64
	Omitted           bool
	Fingerprint       retrysafe.Fingerprint
	Tags              retrysafe.Tags // of the first claim
	Meta, Body        []byte         // nil where they were not read
}

// Keep is a Retention in microseconds.
type Keep struct{ Replay, Key, Audit int64 }

// NewKeep returns r with its defaults filled in.
func NewKeep(r retrysafe.Retention) Keep {
	r = r.WithDefaults()
	return Keep{Replay: Micros(r.Replay), Key: Micros(r.Key), Audit: Micros(r.Audit)}
}

// Micros is d in microseconds, rounded up so that nothing ends early. A negative d is 0.
func Micros(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Microsecond) + 1
}

// Duration is a number of microseconds as a Duration: 0 if it is negative, the longest there is if it is too large.
func Duration(micros int64) time.Duration {
	if micros > math.MaxInt64/int64(time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(max(micros, 0)) * time.Microsecond
}

// Expired reports whether the retention of the key has passed, so that the record takes no part in claims.
func (r *Record) Expired(now Instant) bool { return now >= r.EndsAt+r.Keep.Key }

// Readable reports whether people may read the record: while it takes part in claims, and longer if the work has ended
// and Audit has not passed.
func (r *Record) Readable(now Instant) bool { return !r.Expired(now) || r.Audited(now) }

// Audited reports whether the work has ended and the answer may still be read.
func (r *Record) Audited(now Instant) bool { return r.State.Ended() && now < r.EndsAt+r.Keep.Audit }

// LeaseRuns reports whether an attempt has the key, and its lease has not run out.
func (r *Record) LeaseRuns(now Instant) bool { return r.State == retrysafe.Pending && now < r.EndsAt }

// ClaimedUnder reports whether l is the lease of the last claim.
func (r *Record) ClaimedUnder(l retrysafe.Lease) bool {
	return r.Owner == l.Owner && r.Fence == l.Fence
}

// PendingUnder reports whether the attempt that l names has the key, even if its lease has run out.
func (r *Record) PendingUnder(l retrysafe.Lease) bool {
	return r.State == retrysafe.Pending && r.ClaimedUnder(l)
}

// AbandonedByAnother reports whether a claim by owner that takes the record takes it over from another attempt.
func (r *Record) AbandonedByAnother(owner retrysafe.Owner, now Instant) bool {
	return r.State == retrysafe.Pending && r.Owner != owner && !r.Expired(now)
}

// heldLease is what LeaseLeft says of an abandoned record that a transaction holds.
const heldLease = time.Second

// HeldClaim answers a take-over whose record a transaction holds: the key is in flight until that ends.
func HeldClaim(held retrysafe.Record) retrysafe.Claim {
	held.LeaseLeft, held.ReplayLeft, held.KeyLeft, held.AuditLeft = heldLease, 0, 0, 0
	return retrysafe.Claim{Verdict: retrysafe.InFlight, Record: held}
}

// ErrHeld is the error of EndLease for a record that a transaction holds.
var ErrHeld = fmt.Errorf("%w: a transaction holds its record, such as that of a service between complete and COMMIT; end "+
	"that transaction, or wait for it", retrysafe.ErrNotAbandoned)

// Verdict is what a claim finds, of a record that has not expired. Acquired means that the claim may take the key.
func (r *Record) Verdict(p *retrysafe.ClaimParams, now Instant) retrysafe.Verdict {
	same := r.Fingerprint == p.Fingerprint
	switch {
	case r.State.Ended():
		return retrysafe.Done
	case r.State == retrysafe.Pending && r.Owner == p.Owner:
		return retrysafe.Acquired
	case r.LeaseRuns(now):
		return retrysafe.InFlight
	case r.State == retrysafe.Released && same:
		return retrysafe.Acquired
	case r.State == retrysafe.Released:
		return retrysafe.InFlight
	case p.TakeOver && same:
		return retrysafe.Acquired
	}
	return retrysafe.Abandoned
}

// View is the record as callers see it, without steps.
func (r *Record) View(k retrysafe.Key, now Instant) retrysafe.Record {
	v := retrysafe.Record{
		Key:         k,
		Fingerprint: r.Fingerprint,
		State:       r.State,
		Fence:       r.Fence,
		FirstFence:  r.FirstFence,
		Attempt:     int(r.Attempt),
		Age:         Duration(now - r.ClaimedAt),
		Tags:        r.Tags,
	}
	if r.State.Ended() {
		v.Result = retrysafe.Result{
			Failed: r.State == retrysafe.Failed, Code: int(r.Code), Omitted: r.Omitted, Meta: r.Meta, Body: r.Body,
		}
	}
	if r.LeaseRuns(now) {
		v.LeaseLeft = Duration(r.EndsAt - now)
		return v
	}
	if r.State != retrysafe.Pending {
		v.EndedAge = Duration(now - r.EndsAt)
	}
	v.ReplayLeft = Duration(r.EndsAt + r.Keep.Replay - now)
	v.KeyLeft = Duration(r.EndsAt + r.Keep.Key - now)
	v.AuditLeft = Duration(r.EndsAt + r.Keep.Audit - now)
	return v
}

// ForClaim is the record as Claim shows it: with the steps of work that has not ended, or with the answer while it may
// be replayed.
func (r *Record) ForClaim(k retrysafe.Key, now Instant, steps []retrysafe.StepResult) retrysafe.Record {
	v := r.View(k, now)
	if !r.State.Ended() {
		v.Steps = steps
	} else if v.ReplayLeft == 0 {
		v.Result.Meta, v.Result.Body = nil, nil
	}
	return v
}

// ForPeople is the record as Inspect shows it: with all there is until Audit has passed.
func (r *Record) ForPeople(k retrysafe.Key, now Instant, steps []retrysafe.StepResult) retrysafe.Record {
	v := r.View(k, now)
	if !r.State.Ended() || v.AuditLeft > 0 {
		v.Steps = steps
	} else {
		v.Result.Meta, v.Result.Body = nil, nil
	}
	return v
}

// Unshare gives v bytes that it does not share with a store.
func Unshare(v *retrysafe.Record) {
	v.Result = v.Result.Clone()
	v.Steps = slices.Clone(v.Steps)
	for i, step := range v.Steps {
		v.Steps[i] = step.Clone()
	}
}
