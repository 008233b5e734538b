package sqlitestore

import (
	"context"
	"database/sql/driver"
	"math"
	"sync"
)

const (
	// spanSize is how many microseconds of arrivals the sweeper knows one deadline for: about a minute.
	spanSize = 1 << 26
	// bite is how many records are swept in one transaction while callers wait, and bigBite if none do.
	bite, bigBite = 64, 256
	// maxLooked is how many records are looked at in one read.
	maxLooked = 1000
	// sweepAfter is how many claims and completions come between two sweeps of the store's own.
	sweepAfter = 256
	// maxFree is the part of the file, in percent, that may be free before space goes back to the disk.
	maxFree = 20
	// minFree is how many free pages the file may have in any case.
	minFree = 64
)

// sweeper knows where something is due without an index on deadlines, which would double what a claim costs. It walks
// the records in the order of their arrival, a span at a time, and remembers for each span when the next record in it
// is due. So records that stay for long are not looked at again and again because of others that go early.
type sweeper struct {
	pass sync.Mutex // one pass at a time

	mu     sync.Mutex
	next   map[int64]instant // by span: not later than its first deadline
	writes int               // since the last kick
	// walked is up to where the records that the file had when it was opened have been looked at, and known where
	// they end.
	walked, known int64

	kick  chan struct{}
	ended chan struct{}
}

func (w *sweeper) start(lastFence int64) {
	w.next = make(map[int64]instant)
	w.known = lastFence
	w.kick, w.ended = make(chan struct{}, 1), make(chan struct{})
}

// saved remembers the deadlines of what has been written, and has the store swept now and then.
func (w *sweeper) saved(deadlines []deadline) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range deadlines {
		w.note(d.id, d.due)
	}
	if w.writes += len(deadlines); w.writes < sweepAfter {
		return
	}
	w.writes = 0
	select {
	case w.kick <- struct{}{}:
	default: // a sweep is due already
	}
}

// note remembers a deadline of a record. w.mu is held.
func (w *sweeper) note(id int64, due instant) {
	if next, ok := w.next[id/spanSize]; !ok || due < next {
		w.next[id/spanSize] = due
	}
}

func (w *sweeper) noteLocked(id int64, due instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(id, due)
}

// Sweep deletes records past their retention and drops results and steps that nobody may read any more: up to limit
// records, a few in each transaction, so that claims do not wait. Less than limit means that nothing more is due.
// The store sweeps by itself while it is being used; call Sweep to have space back in quiet times.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	s.sweeper.pass.Lock()
	defer s.sweeper.pass.Unlock()
	swept := 0
	for swept < limit {
		span, ok, err := s.dueSpan(ctx)
		if err != nil {
			return swept, err
		}
		if !ok {
			return swept, s.giveBack(ctx)
		}
		n, err := s.sweepSpan(ctx, span, limit-swept)
		swept += n
		if err != nil {
			return swept, err
		}
	}
	return swept, ctx.Err()
}

// dueSpan returns a span in which something is due, or may be.
func (s *Store) dueSpan(ctx context.Context) (span int64, ok bool, err error) {
	w := &s.sweeper
	w.mu.Lock()
	defer w.mu.Unlock()
	now := s.clock.now()
	for span, due := range w.next {
		if due <= now {
			return span, true, nil
		}
	}
	if w.walked >= w.known {
		return 0, false, ctx.Err()
	}
	err = s.readers.read(ctx, func(run runner, _ instant) error {
		row, err := run.first("next_id", w.walked)
		if err != nil || row == nil || row[0] == nil {
			w.walked = w.known
			return err
		}
		c := scanner{row: row}
		span = c.int() / spanSize
		ok = true
		w.walked = (span+1)*spanSize - 1
		w.next[span] = 0 // until it has been walked
		return c.err
	})
	return span, ok, err
}

// sweepSpan walks one span, and sweeps up to limit records of it.
func (s *Store) sweepSpan(ctx context.Context, span int64, limit int) (swept int, err error) {
	w := &s.sweeper
	w.mu.Lock()
	delete(w.next, span) // from here on it is found anew
	w.mu.Unlock()
	for from, last := span*spanSize, (span+1)*spanSize-1; from <= last; {
		p := piece{from: from, last: last, next: math.MaxInt64}
		if swept < limit && err == nil {
			err = s.look(ctx, &p, min(s.biteSize(), limit-swept))
		}
		if p.due > 0 && err == nil {
			err = s.sweepPiece(ctx, &p)
			swept += p.swept
		}
		if swept >= limit && p.last < last || err != nil {
			w.noteLocked(from, 0) // there is more to do
			return swept, err
		}
		if p.next < math.MaxInt64 {
			w.noteLocked(from, p.next)
		}
		from = p.last + 1
	}
	return swept, nil
}

// piece is a part of a span, swept in one transaction.
type piece struct {
	from, last int64   // the first and the last id
	due, swept int     // how many records
	next       instant // when something is due next
}

func (s *Store) biteSize() int {
	if len(s.writer.queue) > 0 {
		return bite
	}
	return bigBite
}

// look finds up to size records in the piece that are due, and ends the piece behind them.
func (s *Store) look(ctx context.Context, p *piece, size int) error {
	return s.readers.read(ctx, func(run runner, now instant) error {
		looked, last := 0, p.from
		err := run.all("due", func(row []driver.Value) error {
			c := scanner{row: row}
			id, due, rest := c.int(), c.int(), c.int()
			if p.due == size {
				return c.err // the next piece's
			}
			if due <= now {
				p.due++
				due = rest
			}
			if due > now {
				p.next = min(p.next, due)
			}
			looked, last = looked+1, id
			return c.err
		}, p.from, p.last, int64(maxLooked))
		if p.due == size || looked == maxLooked {
			p.last = last
		}
		return err
	})
}

// sweepPiece deletes and lightens, in the writer's next transaction, what is due in the piece.
func (s *Store) sweepPiece(ctx context.Context, p *piece) error {
	return s.writer.write(ctx, func(t *session) error {
		t.mark = true // the record with the highest fence may go
		deleted, err := t.exec("sweep", p.from, p.last, t.now, t.now)
		if err != nil {
			return err
		}
		lightened, err := t.exec("sweep_content", p.from, p.last, t.now)
		if err != nil {
			return err
		}
		p.swept = int(deleted + lightened)
		_, err = t.exec("sweep_steps", p.from, p.last)
		return err
	})
}

// giveBack shortens the file while much of it is free, a little in each transaction. A file that the caller has made
// without auto_vacuum keeps its size, and uses the space again.
func (s *Store) giveBack(ctx context.Context) error {
	free, err := s.freePages(ctx)
	for err == nil && free > 0 {
		before := free
		err = s.writer.write(ctx, func(t *session) error {
			_, err := t.exec("give_back")
			return err
		})
		if err == nil {
			free, err = s.freePages(ctx)
		}
		if free >= before {
			break
		}
	}
	return err
}

// freePages returns how many free pages there are; 0 if they are few.
func (s *Store) freePages(ctx context.Context) (free int64, err error) {
	err = s.readers.read(ctx, func(run runner, _ instant) error {
		row, err := run.first("free_pages")
		if err != nil {
			return err
		}
		c := scanner{row: row}
		f, all := c.int(), c.int()
		if f > minFree && f*100 > all*maxFree {
			free = f
		}
		return c.err
	})
	return free, err
}

// sweepInBackground sweeps when the writer says so, until the store closes.
func (s *Store) sweepInBackground() {
	defer close(s.sweeper.ended)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-s.writer.closing
		cancel()
	}()
	for {
		select {
		case <-s.sweeper.kick:
			// More than has been claimed since, so that sweeping catches up. What fails now is tried again later.
			_, _ = s.Sweep(ctx, 4*sweepAfter)
		case <-ctx.Done():
			return
		}
	}
}
