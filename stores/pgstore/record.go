package pgstore

import (
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/retrysafe/retrysafe"
)

// instant is a time on the server's clock, in microseconds since 1970.
type instant = int64

// record is a row of claims or of older, with what find.sql and the like select beside it.
type record struct {
	digest              retrysafe.Digest
	owner               retrysafe.Owner
	fence, firstFence   int64
	claimedAt, endsAt   instant
	keep                keep
	attempt, code       int32
	state               int16
	omitted, waiters    bool
	saved               int32 // steps
	fingerprint         []byte
	meta, body          []byte // nil: not to be had any more
	stepNames, stepData [][]byte
	now, began          instant // began: the transaction that has seen it; 0 where nobody judges
	scope, id           []byte  // only where people look
}

// keep is a Retention in microseconds.
type keep struct{ replay, key, audit number }

func newKeep(r retrysafe.Retention) keep {
	r = r.WithDefaults()
	return keep{replay: micros(r.Replay), key: micros(r.Key), audit: micros(r.Audit)}
}

// micros rounds up, so that nothing ends early.
func micros(d time.Duration) number {
	if d <= 0 {
		return 0
	}
	return number((d-1)/time.Microsecond) + 1
}

func duration(micros int64) time.Duration {
	if micros > math.MaxInt64/int64(time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(max(micros, 0)) * time.Microsecond
}

// scan reads a row of find.sql.
func (r *record) scan(row pgx.CollectableRow, more ...any) error {
	var k, owner pgtype.UUID
	to := []any{
		&k, &owner, &r.fence, &r.firstFence, &r.claimedAt, &r.endsAt, &r.keep.replay, &r.keep.key, &r.keep.audit, &r.attempt,
		&r.code, &r.state, &r.omitted, &r.waiters, &r.saved, &r.fingerprint, &r.meta, &r.body, &r.stepNames, &r.stepData, &r.now,
	}
	if err := row.Scan(append(to, more...)...); err != nil {
		return err
	}
	r.digest, r.owner = k.Bytes, owner.Bytes
	return nil
}

// clone returns a copy that shares no answer with r.
func (r *record) clone() *record {
	c := *r
	c.meta, c.body = slices.Clone(r.meta), slices.Clone(r.body)
	c.stepData = make([][]byte, len(r.stepData))
	for i, d := range r.stepData {
		c.stepData[i] = slices.Clone(d)
	}
	return &c
}

func (r *record) pending() bool { return retrysafe.State(r.state) == retrysafe.Pending }

func (r *record) ended() bool { return retrysafe.State(r.state).Ended() }

// expired reports whether the record takes no more part in claims.
func (r *record) expired() bool { return r.endsAt+int64(r.keep.key) <= r.now }

// readable reports whether an ended record may be read by people.
func (r *record) readable() bool { return r.ended() && r.endsAt+int64(r.keep.audit) > r.now }

func (r *record) isUnder(l retrysafe.Lease) bool { return r.owner == l.Owner && r.fence == l.Fence }

// verdict is what a claim finds that does not take the key; 0: it may be able to.
func (r *record) verdict(p *retrysafe.ClaimParams) retrysafe.Verdict {
	same := string(r.fingerprint) == string(p.Fingerprint)
	switch {
	case r.expired():
		return 0
	case r.ended():
		return retrysafe.Done
	case retrysafe.State(r.state) == retrysafe.Released:
		if same {
			return 0
		}
		return retrysafe.InFlight
	case r.owner == p.Owner:
		return 0
	case r.endsAt > r.now:
		return retrysafe.InFlight
	case p.TakeOver && same:
		return 0
	}
	return retrysafe.Abandoned
}

// view is the record as the contract shows it.
func (r *record) view(k retrysafe.Key) retrysafe.Record {
	v := retrysafe.Record{
		Key:         k,
		Fingerprint: retrysafe.Fingerprint(r.fingerprint),
		State:       retrysafe.State(r.state),
		Fence:       r.fence,
		Attempt:     int(r.attempt),
		FirstFence:  r.firstFence,
		Age:         duration(r.now - r.claimedAt),
		Steps:       r.steps(),
	}
	if v.State == retrysafe.Pending {
		v.LeaseLeft = duration(r.endsAt - r.now)
	} else {
		v.EndedAge = duration(r.now - r.endsAt)
	}
	if v.LeaseLeft == 0 {
		v.ReplayLeft = duration(r.endsAt + int64(r.keep.replay) - r.now)
		v.KeyLeft = duration(r.endsAt + int64(r.keep.key) - r.now)
		v.AuditLeft = duration(r.endsAt + int64(r.keep.audit) - r.now)
	}
	if v.State.Ended() {
		v.Result = retrysafe.Result{Failed: v.State == retrysafe.Failed, Code: int(r.code), Omitted: r.omitted, Meta: r.meta, Body: r.body}
	}
	return v
}

func (r *record) steps() []retrysafe.StepResult {
	var steps []retrysafe.StepResult
	for i, name := range r.stepNames {
		steps = append(steps, retrysafe.StepResult{Name: string(name), Data: r.stepData[i]})
	}
	return steps
}
