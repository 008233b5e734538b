package sqlitestore

import (
	"database/sql/driver"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// record is a row of retrysafe_records. Meta and Body are there only if they may be replayed.
type record struct {
	storekit.Record
	steps int64 // how many there are
}

// id is that of the row: the fence of the first claim, and its time.
func (r *record) id() int64 { return r.FirstFence }

// scanRecord reads what find.sql selects. It returns nil if there is no row.
func scanRecord(row []driver.Value) (*record, error) {
	if row == nil {
		return nil, nil
	}
	s, r := scanner{row: row}, new(record)
	r.FirstFence = s.int()
	r.ClaimedAt = r.FirstFence
	r.State = retrysafe.State(s.int())
	r.Fence, r.Attempt, r.EndsAt = s.int(), s.int(), s.int()
	r.Keep = storekit.Keep{Replay: s.int(), Key: s.int(), Audit: s.int()}
	r.steps = s.int()
	r.Code, r.Omitted = s.int(), s.int() != 0
	copy(r.Owner[:], s.bytes())
	r.Fingerprint = retrysafe.Fingerprint(s.bytes())
	r.Tags = s.tags()
	r.Meta, r.Body = s.bytes(), s.bytes()
	return r, s.err
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

func (s *scanner) tags() retrysafe.Tags {
	tags, err := retrysafe.ParseTags(string(s.bytes()))
	if err != nil {
		s.fail()
	}
	return tags
}

func (s *scanner) fail() {
	if s.err == nil {
		s.err = damaged(fmt.Errorf("column %d of a record is a %T", s.i, s.row[s.i-1]))
	}
}
