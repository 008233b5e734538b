package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"
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

// addDays makes the missing partitions of the next days.
func (s *Store) addDays(ctx context.Context) error {
	return s.changeTable(ctx, s.sql.addDays, rows{{daysAhead}})
}

// changeTable runs a statement that needs the table for itself, for a moment. While it waits for a long transaction that
// uses the table, all other operations wait behind it: therefore it gives up after a second, and is tried again by a
// later pass.
func (s *Store) changeTable(ctx context.Context, st *statement, r rows) error {
	c, err := s.conns.get(ctx)
	if err != nil {
		return err
	}
	defer discard(c) // its session waits for a second only
	if _, err := c.ExecContext(ctx, "SET SESSION lock_wait_timeout = 1"); err != nil {
		return err
	}
	return s.exec(ctx, c, st, r)
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

// dropDay drops a partition unless something in it may still be read, or the account may not, or the table is in use.
func (s *Store) dropDay(ctx context.Context, day string) error {
	var needed bool
	err := s.read(ctx, func(c *conn) error {
		return c.QueryRowContext(ctx, s.sql.dayIsNeeded.filled("{{day}}", day).literal(nil)).Scan(&needed)
	})
	if err != nil || needed {
		return err
	}
	err = s.changeTable(ctx, s.sql.dropDay.filled("{{day}}", day), nil)
	switch errorNumber(err) {
	case tableDenied, lockWaitTimeout:
		return nil
	}
	return err
}
