package memstore

import (
	"errors"
	"fmt"
)

// Check counts the records and reports whether all three of the store's orders know the same ones.
func (s *Store) Check() (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.due {
		if r.place != i+1 {
			return 0, fmt.Errorf("the record at place %d of the schedule has the index %d", i+1, r.place)
		}
	}
	for _, r := range s.due[len(s.due):cap(s.due)] {
		if r != nil {
			return 0, errors.New("the schedule has a record that was deleted")
		}
	}
	for _, r := range s.records {
		if r == nil {
			return 0, errors.New("the index holds a key without a record")
		}
		for ; r != nil; r = r.older {
			n++
		}
	}
	arrived := 0
	for r := s.arrived.next; r != &s.arrived; r = r.next {
		if r.next.prev != r {
			return 0, errors.New("the order of arrival differs from one direction to the other")
		}
		arrived++
	}
	if n != len(s.due) || n != arrived {
		return 0, fmt.Errorf("%d records in the index, %d in the schedule, %d in the order of arrival",
			n, len(s.due), arrived)
	}
	return n, nil
}

// WithDefaults returns the options that New makes of o.
func WithDefaults(o Options) Options { return o.withDefaults() }
