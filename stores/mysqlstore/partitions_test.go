package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// dropDays takes the partitions away, as they are missing after a week without sweeps.
func dropDays(t *testing.T, s *Store) {
	t.Helper()
	for _, day := range partitions(t, s)[1:] {
		execute(t, s, "ALTER TABLE {{results}} DROP PARTITION "+day)
	}
}

// A transaction of the user's that finds no partition of today has it made for the next one, also if no failure is stored.
// Seen to fail with addToday called before the rollback: it waited in vain for the transaction itself.
func TestMissingDayIsMadeAfterCompleteTx(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	dropDays(t, s)
	guard := retrysafe.New(s, retrysafe.Options{SweepEvery: -1})
	defer func() { _ = guard.Shutdown(context.Background()) }()
	for i := range 2 {
		var completed error
		request := retrysafe.Request{Key: retrysafe.Key{ID: fmt.Sprint(i)}}
		_, err := retrysafe.Do(t.Context(), guard, request, func(ctx context.Context, _ *retrysafe.Attempt) (string, error) {
			tx, err := s.db.BeginTx(ctx, nil)
			if err != nil {
				return "", err
			}
			defer func() { _ = tx.Rollback() }()
			if err := retrysafe.SetResult(ctx, "charged"); err != nil {
				return "", err
			}
			if completed = s.CompleteTx(ctx, tx); completed != nil {
				return "", retrysafe.Retryable(completed)
			}
			return "charged", tx.Commit()
		})
		if (err == nil) != (completed == nil) || errorNumber(completed) != []int{noPartition, 0}[i] {
			t.Errorf("transaction %d: got %v, CompleteTx: %v", i, err, completed)
		}
	}
}

// After a week without sweeps, a transaction of the work finds the partition of today. Seen to fail without haveDays in
// InTx: the completion failed with error 1526, and what the work had written was gone.
func TestMissingDayIsMadeBeforeTransactions(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	execute(t, s, "CREATE TABLE charges (id INT) ENGINE = InnoDB")
	dropDays(t, s)
	guard := retrysafe.New(s, retrysafe.Options{SweepEvery: -1})
	defer func() { _ = guard.Shutdown(context.Background()) }()
	for range 2 {
		out, err := retrysafe.Do(t.Context(), guard, retrysafe.Request{Key: retrysafe.Key{ID: "k"}},
			func(ctx context.Context, _ *retrysafe.Attempt) (string, error) {
				return "charged", errors.Join(retrysafe.SetResult(ctx, "charged"),
					s.InTx(ctx, s.db, func(ctx context.Context, tx *sql.Tx) error {
						_, err := tx.ExecContext(ctx, "INSERT INTO charges (id) VALUES (1)")
						return err
					}))
			})
		if err != nil || out != "charged" {
			t.Errorf("got %q, %v", out, err)
		}
	}
	if n := value[int](t, s, "SELECT COUNT(*) FROM charges"); n != 1 {
		t.Errorf("%d rows, want one", n)
	}
}

// A transaction that was left open keeps a sweep from making partitions, and not from deleting records.
// Seen to fail with the partitions maintained before sweepAll: nothing was swept.
func TestOpenTransactionDelaysNoDeletion(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	keep := retrysafe.Retention{Replay: time.Hour, Key: time.Hour, Audit: time.Hour}
	if err := s.Complete(t.Context(), acquire(t, s, "k"), retrysafe.Result{}, keep); err != nil {
		t.Fatal(err)
	}
	age(t, s, 2*time.Hour)
	dropDays(t, s)
	tx, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	const use = "INSERT INTO {{results}} SELECT * FROM {{results}} WHERE FALSE"
	if _, err := tx.Exec(inDatabase(use, s.options.Database)); err != nil {
		t.Fatal(err)
	}
	s.sweeper.maintained = time.Time{}
	if n, err := s.Sweep(t.Context(), 100); n != 1 || errorNumber(err) != lockWaitTimeout {
		t.Errorf("swept %d, %v; want the record that has expired, and that the table is in use", n, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context(), 100); err != nil || len(partitions(t, s)) < daysAhead {
		t.Errorf("got %v and %d partitions, want those of the next days", err, len(partitions(t, s)))
	}
}

// The day of a completion that is not committed yet stays, also if it commits while the sweep waits. Seen to fail without
// LOCK IN SHARE MODE in day_is_needed.sql: 0 answers were left.
func TestPastDayWaitsForOpenCompletion(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	today := partitions(t, s)[1]
	execute(t, s, "ALTER TABLE {{results}} REORGANIZE PARTITION "+today+" INTO ("+
		"PARTITION d20220101 VALUES LESS THAN (1641081600000000), "+
		"PARTITION "+today+" VALUES LESS THAN ("+endOf(t, s, today)+"))")
	for _, pause := range []time.Duration{0, 300 * time.Millisecond} { // both within the second that the sweep waits
		tx, err := s.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		const text = "INSERT INTO {{results}} VALUES (1641081500000000, UNHEX(REPLACE(UUID(), '-', '')), 9000000000000000, '', '')"
		if _, err := tx.ExecContext(t.Context(), inDatabase(text, s.options.Database)); err != nil {
			t.Fatal(err)
		}
		s.sweeper.maintained = time.Time{}
		swept := make(chan error, 1)
		go func() { _, err := s.Sweep(t.Context(), 10); swept <- err }()
		if pause > 0 {
			time.Sleep(pause)
		} else if err := <-swept; err != nil { // it gives up
			t.Error(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if pause > 0 {
			if err := <-swept; err != nil {
				t.Error(err)
			}
		}
		const kept = "SELECT COUNT(*) FROM {{results}} WHERE keep_until > 8000000000000000"
		if n := value[int](t, s, kept); n != 1 || !slices.Contains(partitions(t, s), "d20220101") {
			t.Fatalf("committed after %v: %d answers are left, want 1", pause, n)
		}
		execute(t, s, "DELETE FROM {{results}}")
	}
}
