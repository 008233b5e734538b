package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

const (
	// piece is how many records are deleted in one transaction, which takes less time than a claim under load.
	piece = 200
	// sweepLockTime is how long one process may sweep before another thinks that it has died.
	sweepLockTime = time.Minute
	// lateTransactions is how many minutes a claim may take from reading the clock to its commit.
	lateTransactions = 10
)

// sweeper is what a Store knows of sweeping.
type sweeper struct {
	me   uuid
	pass storekit.Turn // one pass at a time; it guards what follows
	// low is the minute before which no record is left, so that dead index entries there are not read again. A row that
	// was locked, and so was skipped, keeps it down.
	low        int32
	maintained time.Time     // when the partitions were
	indexed    time.Time     // when states were
	stateTime  time.Duration // the constant of that name, but in tests of slow servers
}

func (w *sweeper) start() {
	w.me, w.pass, w.stateTime = uuid(retrysafe.NewOwner()), storekit.NewTurn(), stateTime
}

// Sweep deletes up to limit records that are past their retention, in small transactions, and returns how many. Now and
// then it makes the partitions of the next days, and drops those whose answers may not be read any more. It notes which
// records have not succeeded, so that List and Find need not read the others. It pauses for half of the time, so that
// claims are not slowed down. One process at a time sweeps; in the others Sweep returns 0. It may be called by many
// goroutines at once, and returns an error when ctx ends.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := ctx.Err(); err != nil || limit <= 0 {
		return 0, err
	}
	if err := s.sweeper.pass.Take(ctx); err != nil {
		return 0, err
	}
	defer s.sweeper.pass.End()
	mine, err := s.takeSweepLock(ctx)
	if err != nil || !mine {
		return 0, err
	}
	defer s.releaseSweepLock(ctx)
	swept, err := s.sweepClaims(ctx, limit)
	if err == nil && swept < limit {
		var older int
		older, err = s.sweepOlder(ctx, limit-swept)
		swept += older
	}
	if err == nil {
		err = s.indexStates(ctx)
	}
	// Last, because dropping a day waits for every transaction that has begun before, for as long as ctx allows: one that
	// a program has left open would keep records from being deleted.
	if err == nil {
		err = s.maintainPartitions(ctx)
	}
	return swept, err
}

func (s *Store) takeSweepLock(ctx context.Context) (mine bool, err error) {
	err = s.readCommitted(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, s.sql.takeSweepLock, "sweep", &s.sweeper.me, sweepLockTime.Microseconds())
		mine = tag.RowsAffected() == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("sweep: %w", explain(err))
	}
	return mine, nil
}

// releaseSweepLock lets other processes sweep. If it fails, they can after sweepLockTime. It has a deadline of its own,
// because a server that has stopped answering would hold the caller up for ever, and a connection of the pool with it.
func (s *Store) releaseSweepLock(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	_ = s.readCommitted(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.sql.releaseSweepLock, "sweep", &s.sweeper.me)
		return err
	})
}

func (s *Store) sweepClaims(ctx context.Context, limit int) (swept int, err error) {
	for swept < limit {
		n, began := min(limit-swept, piece), time.Now()
		var gone, looked int
		var minute int32
		if err := s.sweepPiece(ctx, s.sql.sweepClaims, []any{n, s.sweeper.low}, &gone, &looked, &minute); err != nil {
			return swept, fmt.Errorf("sweep: %w", explain(err))
		}
		swept += gone
		if looked < n {
			return swept, s.raiseLow(ctx, minute-lateTransactions)
		}
		storekit.Rest(ctx, time.Since(began))
	}
	return swept, nil
}

// raiseLow has the next pass begin at a minute, or at the oldest record before it that is left. If the clock has been
// set back, the minute is lower than before.
func (s *Store) raiseLow(ctx context.Context, minute int32) error {
	var left *int32
	if err := s.sweepPiece(ctx, s.sql.oldestDue, []any{s.sweeper.low, minute}, &left); err != nil {
		return fmt.Errorf("sweep: %w", explain(err))
	}
	s.sweeper.low = minute
	if left != nil {
		s.sweeper.low = *left
	}
	return nil
}

func (s *Store) sweepOlder(ctx context.Context, limit int) (swept int, err error) {
	for swept < limit {
		n, gone, began := min(limit-swept, piece), 0, time.Now()
		if err := s.sweepPiece(ctx, s.sql.sweepOlder, []any{n}, &gone); err != nil {
			return swept, fmt.Errorf("sweep: %w", explain(err))
		}
		if swept += gone; gone < n {
			return swept, nil
		}
		storekit.Rest(ctx, time.Since(began))
	}
	return swept, nil
}

// sweepPiece runs a statement that sweeps, under the planner settings of batches, and reads its one row.
func (s *Store) sweepPiece(ctx context.Context, text string, args []any, to ...any) error {
	p := new(pgx.Batch)
	p.Queue(s.sql.plannerSettings, nil)
	p.Queue(text, args...).QueryRow(func(row pgx.Row) error { return row.Scan(to...) })
	return s.readCommitted(ctx, func(tx pgx.Tx) error { return tx.SendBatch(ctx, p).Close() })
}
