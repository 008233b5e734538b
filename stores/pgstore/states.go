package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

const (
	// statePiece is how many records are looked at in one transaction to index their states.
	statePiece = 5000
	// stateTime bounds what a sweep spends on that, but for one piece of each kind: a server may take as long for every
	// statement. statePause is how long a process then leaves it. Records that are looked at while their work goes on cost
	// another look.
	stateTime  = 2 * time.Second
	statePause = 20 * time.Second
)

// indexStates has searches find records that have not succeeded. Such a record gets a row in the table tags one or two
// sweeps after its claim, by when most have succeeded; until then searches read all new records.
//
// Several processes may do it at once, and any of them may stop at any time. Every pass looks at some old records again,
// so that one which was missed is found in the end: the clock may have been set back, and programs of version 6 reopen
// records without a row.
func (s *Store) indexStates(ctx context.Context) error {
	began := time.Now()
	if began.Sub(s.sweeper.indexed) < statePause {
		return nil
	}
	if err := s.noteWriters(ctx); err != nil {
		return err
	}
	var looked int
	for more := true; more; more = looked >= statePiece && time.Since(began) < s.sweeper.stateTime {
		if err := s.statesPiece(ctx, s.sql.indexStates, []any{statePiece, false}, &looked); err != nil {
			return err
		}
	}
	last := int64(0)
	for more := true; more; more = looked >= statePiece && time.Since(began) < s.sweeper.stateTime {
		if err := s.statesPiece(ctx, s.sql.indexEnded, []any{statePiece, last}, &looked, &last); err != nil {
			return err
		}
	}
	if err := s.statesPiece(ctx, s.sql.indexStates, []any{statePiece, true}, &looked); err != nil {
		return err
	}
	if err := s.indexScopes(ctx); err != nil {
		return err
	}
	s.sweeper.indexed = began
	return nil
}

// noteWriters finds out up to which first fence every claim is committed.
func (s *Store) noteWriters(ctx context.Context) error {
	err := s.readCommitted(ctx, func(tx pgx.Tx) error {
		var now int64
		if err := tx.QueryRow(ctx, s.sql.lockProgress).Scan(&now); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, s.sql.noteWriters, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("index states: %w", explain(err))
	}
	return nil
}

// statesPiece runs a statement that moves progress, and reads its one row. The statement sees what another process has
// committed that has held the lock until then.
func (s *Store) statesPiece(ctx context.Context, text string, args []any, to ...any) error {
	began, p := time.Now(), new(pgx.Batch)
	p.Queue(s.sql.plannerSettings, nil)
	p.Queue(s.sql.lockProgress)
	if text == s.sql.indexScopes { // which sees only then that blocks are gone
		p.Queue(s.sql.trimBlocks)
	}
	p.Queue(text, args...).QueryRow(func(row pgx.Row) error { return row.Scan(to...) })
	if err := s.readCommitted(ctx, func(tx pgx.Tx) error { return tx.SendBatch(ctx, p).Close() }); err != nil {
		return fmt.Errorf("index states: %w", explain(err))
	}
	storekit.Rest(ctx, time.Since(began))
	return nil
}
