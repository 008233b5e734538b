package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/elapsed"
)

const (
	// daysAhead is how many days have their partition, today included.
	daysAhead = 8
	// daysEvery is how often a Store maintains partitions.
	daysEvery = 10 * time.Minute
)

// maintainPartitions makes the partitions of the next days, and drops those of the past that are no longer needed.
func (s *Store) maintainPartitions(ctx context.Context) error {
	if time.Since(s.sweeper.maintained) < daysEvery {
		return nil
	}
	if err := s.addDays(ctx); err != nil {
		return fmt.Errorf("make partitions: %w", err)
	}
	days, err := s.pastDays(ctx)
	if err != nil {
		return err
	}
	for _, day := range days {
		if err := s.dropDay(ctx, day); err != nil {
			return fmt.Errorf("drop partition %s: %w", day, err)
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
		return fmt.Errorf("mysqlstore: make the partition of today: %w", explain(err))
	}
	return nil
}

// addDays makes the missing partitions of the next days.
func (s *Store) addDays(ctx context.Context) error {
	return s.impatiently(ctx, func(c *conn) error { return s.exec(ctx, c, s.sql.addDays, rows{{daysAhead}}) })
}

// daysSeenFor is for how long InTx need not have partitions made again: they are made for several days.
const daysSeenFor = 12 * time.Hour

// haveDays makes the partitions of the next days if they may be missing, as after a week without sweeps. Making one
// commits, so it comes before a transaction of the work: the completion in it would fail, and take the work along. An
// error counts for nothing here, because the partitions are most likely there; if they are not, the completion says so.
func (s *Store) haveDays(ctx context.Context) {
	if seen := s.daysSeen.Load(); seen != nil && elapsed.Since(*seen) < daysSeenFor {
		return
	}
	now := time.Now()
	_ = s.addDays(ctx)
	s.daysSeen.Store(&now)
}

// impatiently calls f with a session that waits for nothing longer than a second. While a statement waits that needs the
// table for itself, for a moment, all other operations wait behind it: therefore it gives up, and is tried again by a later
// pass.
func (s *Store) impatiently(ctx context.Context, f func(c *conn) error) error {
	c, err := s.conns.get(ctx)
	if err != nil {
		return err
	}
	defer discard(c)
	if _, err := c.ExecContext(ctx, "SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1"); err != nil {
		return err
	}
	return f(c)
}

func (s *Store) pastDays(ctx context.Context) (days []string, err error) {
	err = s.read(ctx, func(c *conn) error {
		days = nil
		return s.query(ctx, c, s.sql.pastDays, nil, func(row *sql.Rows) error {
			var name string
			err := row.Scan(&name)
			days = append(days, name)
			return err
		})
	})
	return days, err
}

// dropDay drops a partition unless something in it may still be read, or the account may not, or the table is in use. A
// completion that is not committed yet holds its row, for which the question waits: none begins on a past day, so none comes
// after it.
func (s *Store) dropDay(ctx context.Context, day string) error {
	err := s.impatiently(ctx, func(c *conn) error {
		var needed bool
		question := s.sql.dayIsNeeded.filled("{{day}}", day).literal(nil)
		if err := c.QueryRowContext(ctx, question).Scan(&needed); err != nil || needed {
			return err
		}
		return s.exec(ctx, c, s.sql.dropDay.filled("{{day}}", day), nil)
	})
	switch errorNumber(err) {
	case tableDenied, lockWaitTimeout:
		return nil
	}
	return err
}
