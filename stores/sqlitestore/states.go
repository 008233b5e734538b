package sqlitestore

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

const (
	// statePiece is how many records are looked at in one transaction to index their states.
	statePiece = 1000
	// stateTime bounds what a sweep spends on that. statePause is how long, in microseconds, it then leaves it, and how
	// old a record is when it is looked at: most have succeeded by then.
	stateTime          = 2 * time.Second
	statePause instant = 20_000_000
)

// indexStates has Find find records that have not succeeded. Such a record gets a row in retrysafe_tags some time after
// its claim, which goes when it has ended. Every pass looks at some old records again, because a program of an earlier
// version gives a record that it reopens no row.
func (s *Store) indexStates(ctx context.Context) error {
	now, began := s.clock.now(), time.Now()
	if now < s.sweeper.indexed+statePause {
		return nil
	}
	for n := statePiece; n == statePiece && time.Since(began) < stateTime; {
		var err error
		if n, err = s.indexPiece(ctx, "indexed", now-statePause); err != nil {
			return err
		}
	}
	for n, last := statePiece, int64(0); n == statePiece && time.Since(began) < stateTime; {
		var err error
		if n, last, err = s.indexEnded(ctx, last); err != nil {
			return err
		}
	}
	n, err := s.indexPiece(ctx, "again", 0)
	if err == nil && n < statePiece {
		err = s.writer.write(ctx, func(t *writeTx) error {
			_, err := t.exec("set_meta", "again", int64(0))
			return err
		})
	}
	if err == nil {
		err = s.indexBlocks(ctx)
	}
	s.sweeper.indexed = now
	return err
}

// indexPiece looks at the next records from what retrysafe_meta has under a name, and returns how many there were.
func (s *Store) indexPiece(ctx context.Context, name string, below instant) (looked int, err error) {
	began, last := time.Now(), int64(0)
	err = s.readers.read(ctx, func(run runner, _ instant) error {
		row, err := run.first("next_states", name, below, int64(statePiece))
		if err != nil || row[1] == nil {
			return err
		}
		c := scanner{row: row}
		looked, last = int(c.int()), c.int()
		return c.err
	})
	if err != nil || looked == 0 {
		return 0, err
	}
	err = s.writer.write(ctx, func(t *writeTx) error {
		if _, err := t.exec("index_states", name, last); err != nil {
			return err
		}
		_, err := t.exec("set_meta", name, last+1)
		return err
	})
	storekit.Rest(ctx, time.Since(began))
	return looked, err
}

// indexEnded looks at the next records after an id that were unfinished, and returns how many there were, and the last
// one's id.
func (s *Store) indexEnded(ctx context.Context, after int64) (looked int, last int64, err error) {
	var ended int64
	err = s.readers.read(ctx, func(run runner, _ instant) error {
		row, err := run.first("next_ended", after, int64(statePiece))
		if err != nil || row[1] == nil {
			return err
		}
		c := scanner{row: row}
		looked, last, ended = int(c.int()), c.int(), c.int()
		return c.err
	})
	if err != nil || ended == 0 {
		return looked, last, err
	}
	return looked, last, s.writer.write(ctx, func(t *writeTx) error {
		if _, err := t.exec("index_failed", after, last); err != nil {
			return err
		}
		_, err := t.exec("index_ended", after, last)
		return err
	})
}

// indexReopened gives a record that ran before, and is free again, the row of those that have not ended.
func indexReopened(run runner, id int64) error {
	if _, err := run.exec("index_reopened", id); err != nil {
		return err
	}
	_, err := run.exec("index_unfinished", id)
	return err
}
