package pgstore

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/soak"
)

// Processes are killed again and again between a business write and its commit, and others go on with what they have left:
// there are never rows of a key that is not done, nor a key that is done without them, nor rows of two attempts. Seen to fail
// with the completion in a transaction of its own.
func TestSoakKilledInTx(t *testing.T) {
	t.Parallel()
	url := shared.Get(t).Database(t)
	s := openAt(t, url, Options{})
	execute(t, s, "CREATE TABLE charges (id text, part integer, attempt integer)")
	var written, killed int
	for range soak.Times(t, 100) {
		cmd, out := startChild(t, "transactions", url)
		for left := rand.IntN(20); ; left-- {
			_, err := out.ReadString('\n')
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			written++
			if left == 0 { // somebody is between a write and its commit
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				killed++
			}
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() >= 0 {
			t.Fatalf("a process ended by itself: %v", err)
		}
		checkCharges(t, s)
	}
	var done, again int
	err := s.pool.QueryRow(t.Context(), "SELECT count(DISTINCT id), count(DISTINCT id) FILTER (WHERE attempt > 1) FROM charges").Scan(&done, &again)
	if err != nil || done == 0 || again == 0 {
		t.Fatalf("%d charged, %d by a later attempt: too little has happened (%v)", done, again, err)
	}
	t.Logf("%d processes killed, %d transactions written, %d charged, %d of them by a later attempt", killed, written, done, again)
}

func checkCharges(t *testing.T, s *Store) {
	t.Helper()
	var wrong int
	err := s.pool.QueryRow(t.Context(), `
		SELECT count(*) FROM (SELECT convert_from(id, 'UTF8') AS id FROM retrysafe.claims WHERE state = 3) done
		FULL JOIN (SELECT id, count(*) AS parts, count(DISTINCT part) AS each FROM charges GROUP BY id) charged USING (id)
		WHERE done.id IS NULL OR charged.parts IS DISTINCT FROM 2 OR charged.each <> 2`).Scan(&wrong)
	if err != nil {
		t.Fatal(err)
	}
	if wrong != 0 {
		t.Fatalf("%d keys are done without their rows, or rows there without their key being done", wrong)
	}
}

// transactUntilKilled charges keys, half of them with database/sql, and takes over what those who were killed have left.
func transactUntilKilled(s *Store) error {
	db, err := sql.Open("pgx", s.pool.Config().ConnString())
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
				if err := charge(g, s, db, i%2 == 0, strconv.FormatInt(next.Add(1), 10)); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

func charge(g *retrysafe.Guard, s *Store, db *sql.DB, withSQL bool, id string) error {
	req := retrysafe.Request{Key: retrysafe.Key{ID: id}}
	_, err := retrysafe.Do(context.Background(), g, req, func(ctx context.Context, a *retrysafe.Attempt) (string, error) {
		if err := retrysafe.SetResult(ctx, "charged"); err != nil {
			return "", err
		}
		insert := func(exec func(query string, args ...any) error) error {
			for part := 1; part <= 2; part++ {
				if err := exec("INSERT INTO charges VALUES ($1, $2, $3)", id, part, a.Number()); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintln(os.Stdout, "written")
			return err
		}
		if withSQL {
			return "charged", s.InSQLTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
				return insert(func(query string, args ...any) error { _, err := tx.ExecContext(ctx, query, args...); return err })
			})
		}
		return "charged", s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return insert(func(query string, args ...any) error { _, err := tx.Exec(ctx, query, args...); return err })
		})
	})
	return err
}
