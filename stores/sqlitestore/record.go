package sqlitestore

import (
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// record is a row of retrysafe_records. meta and body are there only if they may be replayed.
type record struct {
	id          int64
	state       retrysafe.State
	fence       int64
	attempt     int64
	endsAt      instant
	keep        keep
	steps       int64
	swept       bool
	code        int64
	omitted     bool
	owner       retrysafe.Owner
	fingerprint retrysafe.Fingerprint
	meta, body  []byte
}

// keep is a Retention in microseconds.
type keep struct{ replay, key, audit int64 }

func newKeep(r retrysafe.Retention) keep {
	r = r.WithDefaults()
	return keep{replay: micros(r.Replay), key: micros(r.Key), audit: micros(r.Audit)}
}

// scanRecord reads what find.sql selects. It returns nil if there is no row.
func scanRecord(row []driver.Value) (*record, error) {
	if row == nil {
		return nil, nil
	}
	s := scanner{row: row}
	r := &record{
		id:      s.int(),
		state:   retrysafe.State(s.int()),
		fence:   s.int(),
		attempt: s.int(),
		endsAt:  s.int(),
		keep:    keep{replay: s.int(), key: s.int(), audit: s.int()},
		steps:   s.int(),
		swept:   s.int() != 0,
		code:    s.int(),
		omitted: s.int() != 0,
	}
	copy(r.owner[:], s.bytes())
	r.fingerprint = retrysafe.Fingerprint(s.bytes())
	r.meta, r.body = s.bytes(), s.bytes()
	return r, s.err
}

// expired reports whether the key's retention has passed, so that the record takes no part in claims.
func (r *record) expired(now instant) bool { return now >= r.endsAt+r.keep.key }

// readable reports whether people may read the record.
func (r *record) readable(now instant) bool {
	return !r.expired(now) || r.state.Ended() && now < r.endsAt+r.keep.audit
}

func (r *record) leaseRuns(now instant) bool {
	return r.state == retrysafe.Pending && now < r.endsAt
}

// lastClaimedUnder reports whether l is the lease of the record's last claim.
func (r *record) lastClaimedUnder(l retrysafe.Lease) bool {
	return r.owner == l.Owner && r.fence == l.Fence
}

func (r *record) pendingUnder(l retrysafe.Lease) bool {
	return r.state == retrysafe.Pending && r.lastClaimedUnder(l)
}

// verdict is what a claim finds that does not ask for an expired record.
func (r *record) verdict(p *retrysafe.ClaimParams, now instant) retrysafe.Verdict {
	same := r.fingerprint == p.Fingerprint
	switch {
	case r.state.Ended():
		return retrysafe.Done
	case r.state == retrysafe.Pending && r.owner == p.Owner:
		return retrysafe.Acquired
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

// view is the record as a caller sees it, without steps.
func (r *record) view(k retrysafe.Key, now instant) retrysafe.Record {
	v := retrysafe.Record{
		Key:         k,
		Fingerprint: r.fingerprint,
		State:       r.state,
		Fence:       r.fence,
		FirstFence:  r.id,
		Attempt:     int(r.attempt),
		Result: retrysafe.Result{
			Failed: r.state == retrysafe.Failed, Code: int(r.code), Omitted: r.omitted, Meta: r.meta, Body: r.body,
		},
		Age: time.Duration(max(0, now-r.id)) * time.Microsecond,
	}
	if r.leaseRuns(now) {
		v.LeaseLeft = left(now, r.endsAt)
		return v
	}
	if r.state != retrysafe.Pending {
		v.EndedAge = time.Duration(max(0, now-r.endsAt)) * time.Microsecond
	}
	v.ReplayLeft = left(now, r.endsAt+r.keep.replay)
	v.KeyLeft = left(now, r.endsAt+r.keep.key)
	v.AuditLeft = left(now, r.endsAt+r.keep.audit)
	return v
}

// scanner takes the columns of a row one by one, and remembers the first that is not what it should be.
type scanner struct {
	row []driver.Value
	i   int
	err error
}

func (s *scanner) next() driver.Value {
	v := s.row[s.i]
	s.i++
	return v
}

func (s *scanner) int() int64 {
	n, ok := s.next().(int64)
	if !ok {
		s.fail()
	}
	return n
}

// bytes returns nil for NULL.
func (s *scanner) bytes() []byte {
	v := s.next()
	b, ok := v.([]byte)
	if !ok && v != nil {
		s.fail()
	}
	return b
}

func (s *scanner) fail() {
	if s.err == nil {
		s.err = damaged(fmt.Errorf("column %d of a record is a %T", s.i, s.row[s.i-1]))
	}
}
