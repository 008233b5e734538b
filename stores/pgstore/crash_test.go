package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// Processes are killed again and again between a business write and its commit, and others go on with what they have
// left: there are never rows of a key that is not done, nor a key that is done without them, nor rows of two
// attempts. Seen to fail with the completion in a transaction of its own: see TestKillsSeeTwoTransactions.
func TestSoakKilledInTx(t *testing.T) {
	t.Parallel()
	s, wrong := killTransactions(t, "transactions", soak.Times(t, 25))
	if wrong != "" {
		t.Fatal(wrong)
	}
	var done, again int
	err := s.pool.QueryRow(t.Context(),
		"SELECT count(DISTINCT id), count(DISTINCT id) FILTER (WHERE attempt > 1) FROM charges").Scan(&done, &again)
	if err != nil || done == 0 || again == 0 {
		t.Fatalf("%d charged, %d by a later attempt: too little has happened (%v)", done, again, err)
	}
	t.Logf("%d charged, %d of them by a later attempt", done, again)
}

// Processes that write their business rows in a transaction, and complete in the next one, are caught.
func TestKillsSeeTwoTransactions(t *testing.T) {
	t.Parallel()
	if _, wrong := killTransactions(t, "two transactions", 25); wrong == "" {
		t.Error("not seen in 25 kills")
	}
}

// killTransactions kills the child so often, and returns a store on its database and what it has left that is wrong.
func killTransactions(t *testing.T, child string, rounds int) (s *Store, wrong string) {
	t.Helper()
	url := shared.Get(t).Database(t)
	s = openAt(t, url, Options{})
	execute(t, s, "CREATE TABLE charges (id text, part integer, attempt integer)")
	for round := range rounds {
		// The child writes a line between a write and its commit.
		tortured().KillAfter(t, child, url, 1+rand.IntN(20), func(string) {})
		if n := wrongCharges(t, s); n > 0 {
			return s, fmt.Sprintf("round %d: %d keys are done without their rows, or rows there without their key "+
				"being done", round+1, n)
		}
	}
	return s, ""
}

func wrongCharges(t *testing.T, s *Store) int {
	t.Helper()
	return value[int](t, s, `
		SELECT count(*) FROM (SELECT convert_from(id, 'UTF8') AS id FROM {{schema}}.claims WHERE state = 3) done
		FULL JOIN (SELECT id, count(*) AS parts, count(DISTINCT part) AS each FROM charges GROUP BY id) charged USING (id)
		WHERE done.id IS NULL OR charged.parts IS DISTINCT FROM 2 OR charged.each <> 2`)
}

// transacting charges keys in the ways that are given, in turn, and takes over what those who were killed have left.
func transacting(ways ...way) func(url string) error {
	return func(url string) error {
		db, err := sql.Open("pgx", url)
		if err != nil {
			return err
		}
		pool, err := pgxpool.New(context.Background(), url)
		if err != nil {
			return err
		}
		s, err := New(context.Background(), pool, Options{})
		if err != nil {
			return err
		}
		g := retrysafe.New(s, retrysafe.Options{Policy: retrysafe.Policy{
			Lease: 500 * time.Millisecond, OnAbandoned: retrysafe.Rerun(), OnInFlight: retrysafe.Wait(time.Minute),
		}})
		var next atomic.Int64
		var charged int64
		if err := s.pool.QueryRow(context.Background(), "SELECT count(*) / 2 FROM charges").Scan(&charged); err != nil {
			return err
		}
		next.Store(charged - 10) // some of those before it were left
		failed := make(chan error)
		for i := range 4 {
			go func() {
				for {
					id := strconv.FormatInt(next.Add(1), 10)
					err := charge(g, s, db, ways[i%len(ways)], id)
					for isLate(err) {
						err = charge(g, s, db, ways[i%len(ways)], id)
					}
					if err != nil {
						failed <- err
					}
				}
			}()
		}
		return <-failed
	}
}

// isLate reports whether the guard gave up because a busy machine took too long for the short lease.
func isLate(err error) bool {
	return errors.Is(err, retrysafe.ErrLeaseLost) || errors.Is(err, retrysafe.ErrStoreFailed) &&
		(errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "too long for a lease"))
}

func charge(g *retrysafe.Guard, s *Store, db *sql.DB, w way, id string) error {
	req := retrysafe.Request{Key: retrysafe.Key{ID: id}}
	_, err := retrysafe.Do(context.Background(), g, req, func(ctx context.Context, a *retrysafe.Attempt) (string, error) {
		if err := retrysafe.SetResult(ctx, "charged"); err != nil {
			return "", err
		}
		return "charged", w(ctx, s, db, func(exec func(query string, args ...any) error) error {
			for part := 1; part <= 2; part++ {
				if err := exec("INSERT INTO charges VALUES ($1, $2, $3)", id, part, a.Number()); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintln(os.Stdout, "written")
			return err
		})
	})
	return err
}

// inserting writes the business rows, one statement after the other.
type inserting func(exec func(query string, args ...any) error) error

// way runs insert in a transaction.
type way func(ctx context.Context, s *Store, db *sql.DB, insert inserting) error

func inSQLTx(ctx context.Context, s *Store, db *sql.DB, insert inserting) error {
	return s.InSQLTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
		return insert(func(query string, args ...any) error { _, err := tx.ExecContext(ctx, query, args...); return err })
	})
}

func inTx(ctx context.Context, s *Store, _ *sql.DB, insert inserting) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return insert(func(query string, args ...any) error { _, err := tx.Exec(ctx, query, args...); return err })
	})
}

// apart commits by itself, and leaves the completion to the guard.
func apart(ctx context.Context, s *Store, _ *sql.DB, insert inserting) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		return insert(func(query string, args ...any) error { _, err := tx.Exec(ctx, query, args...); return err })
	})
}
