package sqlitestore

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/soak"
)

// childEnv names what the test binary does instead of its tests, and childPath the file.
const (
	childEnv  = "SQLITESTORE_TEST_CHILD"
	childPath = "SQLITESTORE_TEST_PATH"
	// childFailed is its exit code if it fails by itself.
	childFailed = 3
)

func TestMain(m *testing.M) {
	children := map[string]func(string) error{
		"claims": claimUntilKilled, "transactions": transactUntilKilled, "hold": holdUntilKilled, "limited": writeInSmallSpace,
	}
	if child, ok := children[os.Getenv(childEnv)]; ok {
		if err := child(os.Getenv(childPath)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(childFailed)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// startChild runs this binary as another process that works on path.
func startChild(t *testing.T, name, path string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+name, childPath+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

// killAfter reads n lines, and then on until the process is dead.
func killAfter(t *testing.T, cmd *exec.Cmd, out *bufio.Reader, n int, each func(line string)) {
	t.Helper()
	for i := 0; ; i++ {
		line, err := out.ReadString('\n')
		if err == io.EOF {
			break // what was being written when it died was not acknowledged
		}
		if err != nil {
			t.Fatal(err)
		}
		each(line)
		if i == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() == childFailed {
		t.Fatalf("the child ended by itself: %v", err)
	}
}

// A process is killed at any moment, again and again: what it has acknowledged is there afterwards, and no key is
// ever claimed twice. Seen to fail with operations answered before COMMIT.
func TestSoakKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	claimed, completed := map[string]string{}, map[string]bool{}
	rounds := soak.Times(t, 200)
	for range rounds {
		cmd, out := startChild(t, "claims", path)
		touched := map[string]bool{}
		killAfter(t, cmd, out, rand.IntN(200), func(line string) {
			var what, id, fence string
			if n, err := fmt.Sscan(line, &what, &id, &fence); n != 3 {
				t.Fatalf("%q: %v", line, err)
			}
			touched[id] = true
			if what == "completed" {
				completed[id] = true
			} else if first, ok := claimed[id]; ok {
				t.Fatalf("%s: claimed under fence %s and again under %s", id, first, fence)
			} else {
				claimed[id] = fence
			}
		})
		checkAcknowledged(t, path, touched, claimed, completed)
	}
	all := map[string]bool{}
	for id := range claimed {
		all[id] = true
	}
	checkAcknowledged(t, path, all, claimed, completed)
	t.Logf("%d rounds, %d acknowledged claims, %d acknowledged completions", rounds, len(claimed), len(completed))
}

func checkAcknowledged(t *testing.T, path string, ids map[string]bool, claimed map[string]string, completed map[string]bool) {
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
			t.Fatalf("%s: acknowledged under fence %s, now %v under %d", id, claimed[id], c.Verdict, c.Record.Fence)
		case completed[id] && (c.Verdict != retrysafe.Done || string(c.Record.Result.Body) != "answer to "+id):
			t.Fatalf("%s: completed, now %v with %q", id, c.Verdict, c.Record.Result.Body)
		case c.Verdict != retrysafe.Done && c.Verdict != retrysafe.InFlight:
			t.Fatalf("%s: claimed, now %v", id, c.Verdict)
		}
	}
}

// claimUntilKilled claims keys that others claim too, and says so on stdout once it is acknowledged.
func claimUntilKilled(path string) error {
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for range 16 {
		go func() {
			for {
				if err := claimSome(s, strconv.Itoa(rand.IntN(20000))); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

func claimSome(s *Store, id string) error {
	ctx := context.Background()
	p := params(id)
	p.Lease = time.Hour
	c, err := s.Claim(ctx, p)
	if err != nil || c.Verdict != retrysafe.Acquired {
		return err
	}
	if _, err := fmt.Printf("claimed %s %d\n", id, c.Lease.Fence); err != nil {
		return err
	}
	err = s.Complete(ctx, c.Lease, retrysafe.Result{Body: []byte("answer to " + id)}, retrysafe.Retention{})
	if err != nil {
		return err
	}
	_, err = fmt.Printf("completed %s %d\n", id, c.Lease.Fence)
	return err
}

// A process is killed again and again while business rows and completions commit together: there are never rows of a
// key that is not done, nor a key that is done without them. Seen to fail with the completion in a transaction of its own.
func TestSoakKilledInTx(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	openBusiness(t, path)
	for range soak.Times(t, 100) {
		cmd, out := startChild(t, "transactions", path)
		killAfter(t, cmd, out, rand.IntN(50), func(string) {})
		checkBusiness(t, path)
	}
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

func checkBusiness(t *testing.T, path string) {
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
		t.Fatalf("%d keys are done, %d were charged; %d rows belong to a key that is not done", done, charged, wrong)
	}
}

func transactUntilKilled(path string) error {
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	g := retrysafe.New(s, retrysafe.Options{})
	failed := make(chan error)
	for range 4 {
		go func() {
			for {
				o := retrysafe.NewOwner()
				if err := charge(g, s, o.String()); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

func charge(g *retrysafe.Guard, s *Store, id string) error {
	req := retrysafe.Request{Key: retrysafe.Key{ID: id}}
	_, err := retrysafe.Do(context.Background(), g, req, func(ctx context.Context, a *retrysafe.Attempt) (string, error) {
		if err := retrysafe.SetResult(ctx, "charged"); err != nil {
			return "", err
		}
		return "charged", s.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			for part := 1; part <= 2; part++ {
				if _, err := tx.ExecContext(ctx, "INSERT INTO charges VALUES (?, ?)", []byte(id), part); err != nil {
					return err
				}
			}
			_, err := os.Stdout.WriteString("written\n")
			return err
		})
	})
	return err
}
