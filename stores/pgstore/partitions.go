package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/internal/elapsed"
)

const (
	// daysAhead is how many days have their partition, today included.
	daysAhead = 8
	// daysEvery is how often a Store maintains partitions.
	daysEvery = 10 * time.Minute
)

// day is a partition of results, or what was one.
type day struct {
	name              string
	attached, pending bool // pending: a detach was interrupted
}

// maintainPartitions makes the partitions of the next days, and drops those of the past that are no longer needed.
func (s *Store) maintainPartitions(ctx context.Context) error {
	if time.Since(s.sweeper.maintained) < daysEvery {
		return nil
	}
	if err := s.addDays(ctx); err != nil {
		return fmt.Errorf("sweep: make partitions: %w", explain(err))
	}
	days, err := s.pastDays(ctx)
	if err != nil {
		return err
	}
	for _, d := range days {
		if err := s.dropDay(ctx, d); err != nil {
			return fmt.Errorf("sweep: drop partition %s: %w", d.name, explain(err))
		}
	}
	s.sweeper.maintained = time.Now()
	return nil
}

// addToday makes today's partition, and those of the next days, if they are missing. A completion needs it whose
// store has not been swept for a week.
func (s *Store) addToday() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Timeout)
	defer cancel()
	if err := s.addDays(ctx); err != nil {
		return fmt.Errorf("pgstore: make the partition of today: %w", err)
	}
	return nil
}

// daysSeenFor is for how long a Store need not look for the partition of today again, because it has seen the one of
// tomorrow.
const daysSeenFor = 12 * time.Hour

// addMissingDay makes the partition of today in the transaction if it is missing, as after a week without sweeps: a
// statement that fails for it would take the writes of the work along. What the transaction makes goes with it if it is
// rolled back, so only what is there already is remembered.
func (t *sharedTx) addMissingDay(ctx context.Context) error {
	s := t.store
	if seen := s.daysSeen.Load(); seen != nil && elapsed.Since(*seen) < daysSeenFor {
		return nil
	}
	now := time.Now()
	n, err := t.exec(ctx, s.sql.addMissingDay)
	if err == nil && n == 0 {
		s.daysSeen.Store(&now)
	}
	return explain(err)
}

// addDays makes the missing partitions of the next days.
func (s *Store) addDays(ctx context.Context) error {
	return s.readCommitted(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.sql.addDays, daysAhead)
		return err
	})
}

func (s *Store) pastDays(ctx context.Context) ([]day, error) {
	rows, err := s.pool.Query(ctx, s.sql.pastDays)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", explain(err))
	}
	days, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d day, err error) {
		return d, row.Scan(&d.name, &d.attached, &d.pending)
	})
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", explain(err))
	}
	return days, nil
}

// dropDay drops a partition unless something in it may still be read. The partition is detached concurrently before,
// because dropping an attached one would lock out all other operations.
func (s *Store) dropDay(ctx context.Context, d day) error {
	needed, written := false, false
	// A completion that is not committed yet does not show. The question for writers comes first: none begins on a past
	// day, so whatever has been written is there for the second one.
	const writers = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND " +
		"relation = '{{schema}}.{{day}}'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
	const text = "SELECT EXISTS (SELECT FROM {{schema}}.{{day}} WHERE keep_until > {{schema}}.clock())"
	err := s.pool.QueryRow(ctx, s.onDay(writers, d)).Scan(&written)
	if err == nil {
		err = s.pool.QueryRow(ctx, s.onDay(text, d)).Scan(&needed)
	}
	switch {
	case err != nil:
		return err
	case needed && d.pending: // it was detached by hand too early: its answers are missing until that is finished
		return errors.New("its detaching was interrupted, and it still holds answers: finish or undo that by hand")
	case needed, written:
		return nil
	}
	if d.attached {
		how := "CONCURRENTLY"
		if d.pending {
			how = "FINALIZE"
		}
		detach := s.onDay("ALTER TABLE {{schema}}.results DETACH PARTITION {{schema}}.{{day}} "+how, d)
		if err := s.alone(ctx, detach); err != nil {
			return err
		}
	}
	return s.alone(ctx, s.onDay("DROP TABLE {{schema}}.{{day}}", d))
}

func (s *Store) onDay(text string, d day) string {
	return inSchema(strings.ReplaceAll(text, "{{day}}", d.name), s.options.Schema)
}

// alone runs a statement that cannot be part of a transaction.
func (s *Store) alone(ctx context.Context, text string) error {
	_, err := s.pool.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol)
	return err
}
