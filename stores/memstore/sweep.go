package memstore

import (
	"container/heap"
	"context"
	"time"
)

// Sweep deletes records past their retention and drops results and steps that may not be read any more: up to limit
// records, one at a time, so that claims do not wait for the whole pass. It returns how many; less than limit means
// that nothing more is due. New keys sweep too, so that claims do not depend on it; call it now and then to free memory
// when few keys are claimed.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	swept := 0
	for swept < limit {
		if err := ctx.Err(); err != nil {
			return swept, err
		}
		if !s.sweepOne() {
			break
		}
		swept++
	}
	return swept, nil
}

func (s *Store) sweepOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sweepNext(s.options.Clock())
}

// sweepNext deletes the record that is due first, or drops its content, and reports whether one was due.
func (s *Store) sweepNext(now time.Duration) bool {
	if len(s.due) == 0 || s.due[0].dueAt() > now {
		return false
	}
	if r := s.due[0]; r.readable(now) {
		r.dropContent()
		s.changed(r)
	} else {
		s.remove(r)
	}
	return true
}

// dueAt returns when r is to be swept next: an ended record loses its content once Audit has passed, any record is
// deleted once it is no longer readable.
func (r *record) dueAt() time.Duration {
	if r.state.Ended() && !r.swept {
		return after(r.endsAt, r.keep.Audit)
	}
	return after(r.endsAt, r.keep.Key)
}

// dropContent drops the parts that may not be read any more. That the work has run, and how it ended, is kept.
func (r *record) dropContent() {
	r.result.Meta, r.result.Body, r.steps = nil, nil, nil
	r.swept = true
}

// schedule is a heap of records, the one that is due first on top. Each record knows its index, so that it can be
// moved.
type schedule []*record

// put adds r, or moves it after a change.
func (q *schedule) put(r *record) {
	if r.place == 0 {
		heap.Push(q, r)
	} else {
		heap.Fix(q, r.place-1)
	}
}

func (q *schedule) remove(r *record) { heap.Remove(q, r.place-1) }

// Len, Less, Swap, Push and Pop are for container/heap.

func (q schedule) Len() int           { return len(q) }
func (q schedule) Less(i, j int) bool { return q[i].dueAt() < q[j].dueAt() }

func (q schedule) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i+1, j+1
}

func (q *schedule) Push(x any) {
	r := x.(*record)
	*q = append(*q, r)
	r.place = len(*q)
}

func (q *schedule) Pop() any {
	last := len(*q) - 1
	r := (*q)[last]
	(*q)[last] = nil // lets the record go
	*q = (*q)[:last]
	return r
}
