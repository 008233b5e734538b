package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// A process is killed at any moment, again and again: what it has acknowledged is there afterwards, and no key is
// ever claimed twice. Seen to fail with operations answered before COMMIT. What it would see: TestKillsSeeEarlyAnswers.
func TestSoakKilled(t *testing.T) {
	t.Parallel()
	if lost := killClaims(t, "claims", soak.Times(t, 25)); lost != "" {
		t.Error(lost)
	}
}

// A process that says of a completion that it is saved, and saves it then, is caught.
func TestKillsSeeEarlyAnswers(t *testing.T) {
	t.Parallel()
	if killClaims(t, "early answers", 25) == "" {
		t.Error("not seen in 25 kills")
	}
}

// killClaims kills the child so often, and returns what of its acknowledgements was not there afterwards.
func killClaims(t *testing.T, child string, rounds int) (lost string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	claimed, completed := map[string]string{}, map[string]bool{}
	for round := range rounds {
		touched := map[string]bool{}
		tortured().KillAfter(t, child, path, 1+rand.IntN(200), func(line string) {
			var what, id, fence string
			if n, err := fmt.Sscan(line, &what, &id, &fence); n != 3 {
				t.Fatalf("%q: %v", line, err)
			}
			touched[id] = true
			if what == "completed" {
				completed[id] = true
			} else if first, ok := claimed[id]; ok {
				lost = fmt.Sprintf("%s: claimed under fence %s and again under %s", id, first, fence)
			} else {
				claimed[id] = fence
			}
		})
		if lost = cmp.Or(lost, lostOf(t, path, maps.Keys(touched), claimed, completed)); lost != "" {
			return fmt.Sprintf("round %d: %s", round+1, lost)
		}
	}
	t.Logf("%d rounds, %d acknowledged claims, %d acknowledged completions", rounds, len(claimed), len(completed))
	return lostOf(t, path, maps.Keys(claimed), claimed, completed)
}

// lostOf returns what is not there of the acknowledgements of these keys.
func lostOf(t *testing.T, path string, ids iter.Seq[string], claimed map[string]string,
	completed map[string]bool,
) string {
	t.Helper()
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for id := range ids {
		c, err := s.Claim(context.Background(), params(id))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case fmt.Sprint(c.Record.Fence) != claimed[id]:
			return fmt.Sprintf("%s: acknowledged under fence %s, now %v under %d", id, claimed[id], c.Verdict, c.Record.Fence)
		case completed[id] && (c.Verdict != retrysafe.Done || string(c.Record.Result.Body) != "answer to "+id):
			return fmt.Sprintf("%s: completed, now %v with %q", id, c.Verdict, c.Record.Result.Body)
		case c.Verdict != retrysafe.Done && c.Verdict != retrysafe.InFlight:
			return fmt.Sprintf("%s: claimed, now %v", id, c.Verdict)
		}
	}
	return ""
}

// claiming claims keys that others claim too, until it is killed.
func claiming(claim func(s *Store, id string) error) func(path string) error {
	return func(path string) error {
		s, err := Open(path, Options{})
		if err != nil {
			return err
		}
		return untilKilled(16, func() error { return claim(s, strconv.Itoa(rand.IntN(20000))) })
	}
}

// untilKilled does it again and again in n goroutines.
func untilKilled(n int, do func() error) error {
	failed := make(chan error)
	for range n {
		go func() {
			for {
				if err := do(); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

// claimSome claims a key and completes it, and says so on stdout once it is acknowledged.
func claimSome(s *Store, id string) error {
	l, err := claimAndSay(s, id)
	if err != nil || l.Fence == 0 {
		return err
	}
	if err := answer(s, l); err != nil {
		return err
	}
	return say("completed", l)
}

// claimSomeTooEarly says of completions what is not true yet.
func claimSomeTooEarly(s *Store, id string) error {
	l, err := claimAndSay(s, id)
	if err != nil || l.Fence == 0 {
		return err
	}
	if err := say("completed", l); err != nil {
		return err
	}
	return answer(s, l)
}

// claimAndSay returns no lease if another attempt has the key.
func claimAndSay(s *Store, id string) (retrysafe.Lease, error) {
	p := params(id)
	p.Lease = time.Hour
	c, err := s.Claim(context.Background(), p)
	if err != nil || c.Verdict != retrysafe.Acquired {
		return retrysafe.Lease{}, err
	}
	return c.Lease, say("claimed", c.Lease)
}

func answer(s *Store, l retrysafe.Lease) error {
	return s.Complete(context.Background(), l, retrysafe.Result{Body: []byte("answer to " + l.Key.ID)},
		retrysafe.Retention{})
}

func say(what string, l retrysafe.Lease) error {
	_, err := fmt.Printf("%s %s %d\n", what, l.Key.ID, l.Fence)
	return err
}

// A process is killed again and again while business rows and completions commit together: there are never rows of a
// key that is not done, nor a key that is done without them. Seen to fail with the completion in a transaction of its
// own. What it would see: TestKillsSeeTwoTransactions.
func TestSoakKilledInTx(t *testing.T) {
	t.Parallel()
	if wrong := killTransactions(t, "transactions", soak.Times(t, 25)); wrong != "" {
		t.Error(wrong)
	}
}

// A process that writes its business rows in a transaction, and completes in the next one, is caught.
func TestKillsSeeTwoTransactions(t *testing.T) {
	t.Parallel()
	if killTransactions(t, "two transactions", 25) == "" {
		t.Error("not seen in 25 kills")
	}
}

// killTransactions kills the child so often, and returns what it has left that is wrong.
func killTransactions(t *testing.T, child string, rounds int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	openBusiness(t, path)
	for round := range rounds {
		tortured().KillAfter(t, child, path, 1+rand.IntN(50), func(string) {})
		if wrong := checkBusiness(t, path); wrong != "" {
			return fmt.Sprintf("round %d: %s", round+1, wrong)
		}
	}
	return ""
}

func openBusiness(t *testing.T, path string) {
	t.Helper()
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.db.Exec("CREATE TABLE charges (id BLOB, part INTEGER)"); err != nil {
		t.Fatal(err)
	}
}

func checkBusiness(t *testing.T, path string) string {
	t.Helper()
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var done, charged, wrong int
	err = s.db.QueryRow(`SELECT (SELECT count(*) FROM retrysafe_records WHERE state = 3),
		(SELECT count(*) FROM charges WHERE part = 2),
		(SELECT count(*) FROM charges WHERE id NOT IN (SELECT key FROM retrysafe_records WHERE state = 3))
	`).Scan(&done, &charged, &wrong)
	if err != nil {
		t.Fatal(err)
	}
	if done != charged || wrong != 0 {
		return fmt.Sprintf("%d keys are done, %d were charged; %d rows belong to a key that is not done", done,
			charged, wrong)
	}
	return ""
}

// transacting charges keys, each in the way that is given, until it is killed.
func transacting(charge func(ctx context.Context, s *Store, insert func(*sql.Tx) error) error) func(path string) error {
	return func(path string) error {
		s, err := Open(path, Options{})
		if err != nil {
			return err
		}
		g := retrysafe.New(s, retrysafe.Options{})
		return untilKilled(4, func() error {
			id := retrysafe.NewOwner().String()
			req := retrysafe.Request{Key: retrysafe.Key{ID: id}}
			_, err := retrysafe.Do(context.Background(), g, req,
				func(ctx context.Context, _ *retrysafe.Attempt) (string, error) {
					if err := retrysafe.SetResult(ctx, "charged"); err != nil {
						return "", err
					}
					return "charged", charge(ctx, s, func(tx *sql.Tx) error {
						for part := 1; part <= 2; part++ {
							if _, err := tx.Exec("INSERT INTO charges VALUES (?, ?)", []byte(id), part); err != nil {
								return err
							}
						}
						_, err := os.Stdout.WriteString("written\n")
						return err
					})
				})
			return err
		})
	}
}

func inTx(ctx context.Context, s *Store, insert func(*sql.Tx) error) error {
	return s.InTx(ctx, func(_ context.Context, tx *sql.Tx) error { return insert(tx) })
}

// apart commits by itself, and leaves the completion to the guard.
func apart(ctx context.Context, s *Store, insert func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := insert(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
