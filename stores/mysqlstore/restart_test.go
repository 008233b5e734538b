package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// readOnly expects that errors of a server which became read-only say what to do, also if the driver closes connections
// to it, and that a Store goes on after that, on other connections. Seen to fail with ErrConnDone left out of advise,
// and with isReadOnly left out of put (one was kept).
func readOnly(t *testing.T, server *servers.MariaDB, owner *Store) {
	t.Helper()
	role, app := stranger(t, server.DSN(owner.options.Database))
	if _, err := Migrate(t.Context(), owner.db, MigrateOptions{Role: role + "@%"}); err != nil {
		t.Fatal(err)
	}
	s := openOn(t, openPool(t, app), Options{})
	l := acquire(t, s, "k")
	execute(t, owner, "SET GLOBAL read_only = ON")
	rejecting := openOn(t, openPool(t, withParams(t, app, func(c *mysql.Config) { c.RejectReadOnly = true })), Options{})
	for _, s := range []*Store{s, rejecting} {
		if err := complete(s, l); err == nil || !strings.Contains(err.Error(), "connect to the primary") {
			t.Errorf("on a server that is read-only: %v, want what to do", err)
		}
		if n := len(s.conns.idle); n > 0 {
			t.Errorf("%d connections to a server that is read-only are kept", n)
		}
	}
	execute(t, owner, "SET GLOBAL read_only = OFF")
	if err := complete(rejecting, l); err != nil {
		t.Error(err)
	}
	if err := complete(s, l); err != nil {
		t.Error(err)
	}
}

// An answer that is longer than a packet is refused with an error that says so, and spoils nothing of what shares its
// batch. Seen to fail with the comparison in fits taken out, and with errPacket taken out of the second case of run.
func TestAnswerLongerThanAPacket(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	s.packet = 1 << 20
	long, short := acquire(t, s, "long"), acquire(t, s, "short")
	ctx := context.Background()
	err := s.Complete(ctx, long, retrysafe.Result{Body: make([]byte, 1<<20)}, retrysafe.Retention{})
	if !errors.Is(err, errPacket) || !strings.Contains(err.Error(), "max_allowed_packet") {
		t.Errorf("got %v, want what to do", err)
	}
	// In one batch with another one.
	first := newCompletion(long, retrysafe.Result{Body: make([]byte, 1<<20)}, retrysafe.Retention{})
	second := newCompletion(acquire(t, s, "beside"), retrysafe.Result{}, retrysafe.Retention{})
	again := s.batcher.Workers.Run([]operation{first, second})
	if len(again) > 0 || !errors.Is(first.Err, errPacket) || second.Err != nil {
		t.Errorf("in one batch: %d left, %v, %v; want the longer one refused", len(again), first.Err, second.Err)
	}
	fits := make([]byte, 1<<20-4096)
	if err := s.Complete(ctx, short, retrysafe.Result{Body: fits}, retrysafe.Retention{}); err != nil {
		t.Errorf("an answer that fits: %v", err)
	}
	if err := complete(s, long); err != nil {
		t.Errorf("a shorter answer: %v", err)
	}
}

// A step that InTx saves, and that is longer than a packet, is refused before anything is written: otherwise the record
// would look completed to the second try, with a smaller answer, and the error would be that another attempt has taken
// the key over. Seen to fail without the question for the steps in write.
func TestStepInTxLongerThanAPacket(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	s.packet = 1 << 20
	execute(t, s, "CREATE TABLE charges (id INT) ENGINE = InnoDB")
	failure := guarded(t, s, "k", func(ctx context.Context, tx *sql.Tx) error {
		if err := retrysafe.SetResult(ctx, "charged"); err != nil {
			return err
		}
		_, err := retrysafe.Step(ctx, "charge", func(ctx context.Context, _ string) (string, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO charges (id) VALUES (1)")
			return strings.Repeat("x", 600<<10), err
		})
		return err
	})
	if !errors.Is(failure, errPacket) || errors.Is(failure, retrysafe.ErrLeaseLost) {
		t.Errorf("InTx = %v, want that the step is too long", failure)
	}
	if n := value[int](t, s, "SELECT COUNT(*) FROM charges"); n != 0 {
		t.Errorf("%d rows remain, want none", n)
	}
}
