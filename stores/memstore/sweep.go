package memstore

import (
	"container/heap"
	"context"
	"time"
)

// Sweep deletes records past their retention and drops results and steps that nobody may read any more: up to limit
// records, one at a time, so that claims do not wait for the whole pass. Less than limit means that nothing more is
// due. Claims work, and new keys sweep, without it; call it now and then so that memory comes back in quiet times.
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

// sweepNext deletes or lightens the record that is due first, and reports whether one was due.
func (s *Store) sweepNext(now time.Duration) bool {
	if len(s.due) == 0 || s.due[0].dueAt() > now {
		return false
	}
	if r := s.due[0]; r.readable(now) {
		r.lighten()
		s.changed(r)
	} else {
		s.remove(r)
	}
	return true
}

// dueAt is when the next thing happens to r: an ended record loses its content once Audit has passed, any record is
// deleted once it is no longer readable.
func (r *record) dueAt() time.Duration {
	if r.state.Ended() && !r.swept {
		return after(r.endsAt, r.keep.Audit)
	}
	return after(r.endsAt, r.keep.Key)
}

// lighten drops what nobody may read any more. That the work has run, and how it ended, stays.
func (r *record) lighten() {
	r.result.Meta, r.result.Body, r.steps = nil, nil, nil
	r.swept = true
}

// schedule is a heap of records, the first due on top. Each record knows its place.
type schedule []*record

// put moves r to where it belongs, after it came or changed.
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
