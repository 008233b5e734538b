package pgstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/torture"
)

// value reads one value from a store's database.
func value[T any](t testing.TB, s *Store, text string, args ...any) (v T) {
	t.Helper()
	if err := s.pool.QueryRow(context.Background(), inSchema(text, s.options.Schema), args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// lockRow changes the row of a key, as a transaction does that is not committed yet. Until unlock, operations on it
// wait.
func lockRow(t testing.TB, s *Store, k retrysafe.Key) (unlock func()) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(ctx) })
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	d := k.Digest()
	text := fmt.Sprintf("UPDATE {{schema}}.claims SET attempt = attempt WHERE k = '%x'", d[:])
	if tag, err := tx.Exec(ctx, inSchema(text, s.options.Schema)); err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("lock %s: %v, %v", k, tag, err)
	}
	return func() {
		if err := errors.Join(tx.Commit(ctx), conn.Close(ctx)); err != nil {
			t.Error(err)
		}
	}
}

// holdUp keeps the only worker of a store busy until release.
func holdUp(t testing.TB, s *Store) (release func()) {
	t.Helper()
	lease := acquire(t, s, rand.Text())
	eventually(t, "no worker is open", func() bool { return running(s) == 0 })
	unlock := lockRow(t, s, lease.Key)
	before, extended := lockWaits(t, s), make(chan error)
	go func() { extended <- s.Extend(context.Background(), lease, time.Minute) }()
	eventually(t, "a worker waits for the row", func() bool { return lockWaits(t, s) > before })
	return func() {
		t.Helper()
		unlock()
		if err := <-extended; err != nil {
			t.Error(err)
		}
	}
}

// waitLong has batches and claims of a store wait for a locked row for longer than a test takes, and not for a second:
// what a test does meanwhile may take its time on a busy machine.
func waitLong(t testing.TB, s *Store) {
	t.Helper()
	long := append(instead(&s.sql.steps[stepInsert], "'lock_timeout', '1000'", "'lock_timeout', '100000'"),
		torture.Change{Text: &s.sql.plannerSettings, Old: "$1::text", Instead: "$1::text || '00'"})
	if err := long.Apply(); err != nil {
		t.Fatal(err)
	}
}

// lockWaits is how many connections of the store's database wait for others.
func lockWaits(t testing.TB, s *Store) int {
	t.Helper()
	return value[int](t, s,
		"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
}

// callEverything calls each method for n keys at once: if there are many, batches have several rows.
func callEverything(t testing.TB, s *Store, n int) {
	t.Helper()
	together(t, n, func(int) error {
		ctx, p := context.Background(), params(rand.Text())
		first, err := s.Claim(ctx, p)
		if err != nil {
			return err
		}
		again := p
		again.Owner = retrysafe.NewOwner()
		short := retrysafe.Retention{Replay: 1, Key: 1, Audit: time.Hour}
		for _, call := range []func() error{
			func() error { return s.Extend(ctx, first.Lease, time.Minute) },
			func() error { return s.Checkpoint(ctx, first.Lease, retrysafe.StepResult{Name: "step"}) },
			func() error { return s.batcher.Do(ctx, &watching{newCall(p.Key, stepWatch)}) },
			func() error { _, err := s.Claim(ctx, again); return err },
			func() error { return s.Complete(ctx, first.Lease, retrysafe.Result{}, short) },
		} {
			if err := call(); err != nil {
				return err
			}
		}
		second, err := s.Claim(ctx, again) // which puts the old record aside
		if err != nil || second.Verdict != retrysafe.Acquired {
			return fmt.Errorf("claim of an expired key = %v, %w", second.Verdict, err)
		}
		return s.Release(ctx, second.Lease)
	})
}

// settleCounts has the server know all that has been done in the database of these stores: a connection tells when it
// ends.
func settleCounts(t testing.TB, stores ...*Store) {
	t.Helper()
	for _, s := range stores {
		s.pool.Reset()
	}
	const others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
	eventually(t, "no other session is connected", func() bool {
		stores[0].pool.Reset()
		return value[int](t, stores[0], others) == 0
	})
}

func running(s *Store) int {
	n, _, _, _ := s.batcher.Workers.State()
	return n
}

func queued(s *Store) int {
	_, n, _, _ := s.batcher.Workers.State()
	return n
}
