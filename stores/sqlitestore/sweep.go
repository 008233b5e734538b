package sqlitestore

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

const (
	// spanSize is how many microseconds of arrivals the sweeper knows one deadline for: about a minute.
	spanSize = 1 << 26
	// minPiece and maxPiece are how many records are swept in one transaction, and pieceTime is how long the writer may
	// take to delete them, because callers wait for it; writing that to disk takes about as long again.
	minPiece, maxPiece = 32, 2000
	pieceTime          = 12 * time.Millisecond
	// maxLooked is how many records are looked at to find those.
	maxLooked = 4000
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
	pass storekit.Turn // one pass at a time; it guards what follows
	// from is where to go on in a span; 0: that one is done.
	from int64
	// walked is up to where the records that the file had when it was opened have been looked at, and known where
	// they end.
	walked, known int64
	piece         int     // how many records to sweep in the next transaction
	ahead         int     // how many to look at
	freed         bool    // something, since the file was found to have few free pages
	indexed       instant // when states were last

	mu     sync.Mutex        // guards what follows
	next   map[int64]instant // by span: not later than its first deadline
	writes int               // since the last kick

	kick  chan struct{}
	ended chan struct{}
}

func (w *sweeper) start(lastFence int64) {
	w.pass, w.next = storekit.NewTurn(), make(map[int64]instant)
	w.known = lastFence
	w.piece, w.freed = minPiece, true
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
	w.look()
}

// look has the store swept.
func (w *sweeper) look() {
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

// Sweep deletes records past their retention, and drops bodies and steps that may not be read any more: up to limit
// records, a few in each transaction, so that claims do not wait. Less than limit means that nothing more is due.
// It also notes which records have not succeeded, for Find. The store sweeps by itself while it is being used; call Sweep
// to have space back in quiet times.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := s.sweeper.pass.Take(ctx); err != nil {
		return 0, err
	}
	defer s.sweeper.pass.End()
	swept := 0
	for swept < limit {
		more, err := s.findSpan(ctx)
		if err != nil {
			return swept, err
		}
		if !more {
			if err := s.indexStates(ctx); err != nil {
				return swept, err
			}
			return swept, s.shrink(ctx)
		}
		n, err := s.sweepSpan(ctx, limit-swept)
		swept += n
		if err != nil {
			return swept, err
		}
	}
	return swept, ctx.Err()
}

// findSpan sets where to go on: where the last pass stopped, or in another span in which something is due, or may be.
// It reports whether there is one.
func (s *Store) findSpan(ctx context.Context) (more bool, err error) {
	w := &s.sweeper
	if w.from == 0 {
		w.from = w.takeDue(s.clock.now())
	}
	if w.from != 0 || w.walked >= w.known {
		return w.from != 0, ctx.Err()
	}
	err = s.readers.read(ctx, func(run runner, _ instant) error {
		row, err := run.first("next_id", w.walked)
		if err != nil || row == nil || row[0] == nil {
			w.walked = w.known
			return err
		}
		c := scanner{row: row}
		w.from = c.int()
		w.walked = spanEnd(w.from)
		return c.err
	})
	return w.from != 0, err
}

// takeDue returns the beginning of a span in which something is due, and forgets its deadline: the walk finds it
// anew. It returns 0 if there is none.
func (w *sweeper) takeDue(now instant) (from int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for span, due := range w.next {
		if due <= now {
			delete(w.next, span)
			return span * spanSize
		}
	}
	return 0
}

// spanEnd is the last id of the span that id is in.
func spanEnd(id int64) int64 { return (id/spanSize+1)*spanSize - 1 }

// sweepSpan walks on to the end of the span, or until it has swept limit records.
func (s *Store) sweepSpan(ctx context.Context, limit int) (swept int, err error) {
	w := &s.sweeper
	for w.from != 0 && swept < limit {
		p, err := s.look(ctx, min(w.piece, limit-swept))
		if err == nil && p.due > 0 {
			err = s.sweepPiece(ctx, &p)
		}
		if err != nil {
			return swept, err
		}
		swept += p.swept
		w.walkedOver(p)
	}
	return swept, nil
}

func (w *sweeper) walkedOver(p piece) {
	w.from = p.last + 1
	if p.last == spanEnd(p.from) {
		w.from = 0
	}
	if p.next == never {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(p.from, p.next)
}

// piece is a part of a span, swept in one transaction.
type piece struct {
	from, last int64   // the first and the last id
	due, swept int     // how many records
	now, next  instant // when that was counted, and when the next one is due, of those that are not yet
}

const never instant = math.MaxInt64

// look finds a piece in which no more than size records are due. It looks the further the fewer those are.
func (s *Store) look(ctx context.Context, size int) (piece, error) {
	w := &s.sweeper
	w.ahead = min(max(w.ahead, size), maxLooked)
	p, err := s.count(ctx, w.ahead)
	if err == nil && p.due > size {
		w.ahead = size
		p, err = s.count(ctx, size)
	}
	if p.due <= size/2 {
		w.ahead *= 2
	}
	return p, err
}

// count tells what is due of the next records, no more than looked.
func (s *Store) count(ctx context.Context, looked int) (piece, error) {
	p := piece{from: s.sweeper.from, last: spanEnd(s.sweeper.from), next: never}
	err := s.readers.read(ctx, func(run runner, now instant) error {
		p.now = now
		row, err := run.first("due", now, p.from, p.last, int64(looked))
		if err != nil || row[1] == nil {
			return err // or there are none
		}
		c := scanner{row: row}
		n, last := c.int(), c.int()
		p.due = int(c.int())
		if row[c.i] != nil {
			p.next = c.int()
		}
		if int(n) == looked {
			p.last = last
		}
		return c.err
	})
	return p, err
}

// sweepPiece deletes the records, and drops the bodies, that were due in the piece when it was counted. It does so in
// the writer's next transaction.
func (s *Store) sweepPiece(ctx context.Context, p *piece) error {
	w := &s.sweeper
	w.freed = true
	return s.writer.write(ctx, func(t *writeTx) error {
		began := time.Now()
		t.mark = true // the record with the highest fence may go
		deleted, err := t.exec("sweep", p.from, p.last, p.now, p.now)
		if err != nil {
			return err
		}
		dropped, err := t.exec("sweep_content", p.from, p.last, p.now)
		if err != nil {
			return err
		}
		_, err = t.exec("sweep_steps", p.from, p.last)
		p.swept = int(deleted + dropped)
		w.adaptPiece(time.Since(began))
		return err
	})
}

// adaptPiece makes the next piece smaller or larger.
func (w *sweeper) adaptPiece(took time.Duration) {
	if took > pieceTime {
		w.piece = max(w.piece*3/4, minPiece)
	} else {
		w.piece = min(w.piece*5/4, maxPiece)
	}
}

// shrink returns free pages to the file system while much of the file is free: some, or all of them if no operation
// waits for the writer. A file that the caller has made without auto_vacuum keeps its size, and uses the space again.
func (s *Store) shrink(ctx context.Context) error {
	w := &s.sweeper
	for before := int64(math.MaxInt64); w.freed; {
		free, err := s.freePages(ctx)
		if err != nil {
			return err
		}
		if free == 0 || free >= before {
			w.freed = false
			return nil
		}
		before = free
		err = s.writer.write(ctx, func(t *writeTx) error {
			_, err := t.exec("shrink")
			return err
		})
		if err != nil || s.writer.waiting() > 0 {
			return err
		}
	}
	return nil
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
	ctx, cancel := s.writer.context()
	defer cancel()
	for {
		select {
		case <-s.sweeper.kick:
			// More than has been claimed since, so that sweeping catches up. What fails now is tried again later.
			_, _ = s.Sweep(ctx, 16*sweepAfter)
			s.checkpointer.look() // which may have found the log in use by the sweep
		case <-ctx.Done():
			return
		}
	}
}
