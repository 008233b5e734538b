package pgstore

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/internal/testing/torture"
)

// childEnv names what the test binary does instead of its tests, childURL the database.
const (
	childEnv = "PGSTORE_TEST_CHILD"
	childURL = "PGSTORE_TEST_URL"
	// childFailed is its exit code if it fails by itself.
	childFailed = 3
)

func TestMain(m *testing.M) {
	torture.Main(tortured(), torturedFunctions())
	children := map[string]func(*Store) error{
		"transactions": transacting(inSQLTx, inTx), "two transactions": transacting(apart),
	}
	if child, ok := children[os.Getenv(childEnv)]; ok {
		if err := runChild(child); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(childFailed)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runChild runs child with a store of its own.
func runChild(child func(*Store) error) error {
	pool, err := pgxpool.New(context.Background(), os.Getenv(childURL))
	if err != nil {
		return err
	}
	s, err := New(context.Background(), pool, Options{})
	if err != nil {
		return err
	}
	return child(s)
}

// startChild runs this binary as another process that works on a database, until it is killed.
func startChild(t testing.TB, name, url string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+name, childURL+"="+url)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(out)
}
