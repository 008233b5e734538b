package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// interruption is a statement that KILL QUERY interrupts, and what it has changed if it says nothing of that.
type interruption struct {
	call    string
	args    func(l retrysafe.Lease) []any
	changed func(before retrysafe.Lease, r retrysafe.Record) bool
}

func tokenOf(l retrysafe.Lease) []any { return []any{l.Token()} }

func succeeded(_ retrysafe.Lease, r retrysafe.Record) bool { return r.State == retrysafe.Succeeded }

var interruptions = map[string]interruption{
	"complete": {"CALL {{complete}} (?, 'answer', NULL, NULL)", tokenOf, succeeded},
	"store_complete": {
		"CALL {{store_complete}} (?, ?, ?, 3, 200, 0, 3600000000, 3600000000, 3600000000, '', 'answer')", leaseValues, succeeded,
	},
	"release": {
		"CALL {{release}} (?)", tokenOf,
		func(_ retrysafe.Lease, r retrysafe.Record) bool { return r.State != retrysafe.Pending },
	},
	"extend": {
		"CALL {{extend}} (?, 7200)", tokenOf,
		func(_ retrysafe.Lease, r retrysafe.Record) bool { return r.LeaseLeft > time.Hour },
	},
	"save_step": {
		"CALL {{save_step}} (?, 'step', 'data')", tokenOf,
		func(_ retrysafe.Lease, r retrysafe.Record) bool { return len(r.Steps) == 1 },
	},
	"claim": {
		`CALL {{claim}} (?, ?, ?, '{"take_over": true}')`,
		func(l retrysafe.Lease) []any {
			return []any{[]byte(l.Key.Scope), []byte(l.Key.ID), []byte(params(l.Key.ID).Fingerprint)}
		},
		func(before retrysafe.Lease, r retrysafe.Record) bool { return r.Fence > before.Fence },
	},
}

// A procedure that reports no error has done what it says, although KILL QUERY hits it anywhere. MariaDB may answer an
// UPDATE that is interrupted as if there were no such row, and a procedure then goes on.
// Seen to fail, in some runs, with ROW_COUNT left out of complete, of store_complete and of claim; never with that of the
// others left out, whose UPDATE is soon over. An UPDATE that is certain to run when it is interrupted, because a trigger
// sleeps, reports the interruption.
func TestSoakInterruptedProcedures(t *testing.T) {
	t.Parallel()
	owner := openTest(t)
	for name, i := range interruptions {
		t.Run(name, func(t *testing.T) {
			var interrupted atomic.Int64
			together(t, 8, func(worker int) error {
				conn, err := owner.db.Conn(t.Context())
				if err != nil {
					return err
				}
				defer conn.Close()
				for n := range soak.Times(t, 150) {
					l := acquire(t, owner, fmt.Sprintf("%s %d %d", name, worker, n))
					if err := i.undergo(owner, conn, l, &interrupted); err != nil {
						return err
					}
				}
				return nil
			})
			if t.Logf("%d calls were interrupted", interrupted.Load()); interrupted.Load() == 0 {
				t.Error("no call was interrupted")
			}
		})
	}
}

// undergo has conn call the procedure under a lease that has ended, and interrupts that at any time. It returns an error
// if the call reported none and has not changed what it should.
func (i interruption) undergo(owner *Store, conn *sql.Conn, l retrysafe.Lease, interrupted *atomic.Int64) error {
	ctx := context.Background()
	if err := owner.Extend(ctx, l, 0); err != nil {
		return err
	}
	var id int64
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		return err
	}
	killed := make(chan error, 1)
	go func() {
		time.Sleep(rand.N(time.Millisecond)) // any time
		_, err := owner.db.Exec(fmt.Sprintf("KILL QUERY %d", id))
		killed <- err
	}()
	failed := i.callOn(ctx, conn, owner.options.Database, l)
	if err := <-killed; err != nil {
		return err
	}
	_, _ = conn.ExecContext(ctx, "ROLLBACK") // it may be the one that is interrupted, if the call was over
	if failed != nil {
		interrupted.Add(1)
		return nil
	}
	found, err := owner.Inspect(ctx, l.Key.Digest())
	if err != nil {
		return err
	}
	var r retrysafe.Record // none is left of a key that was released
	if len(found) > 0 {
		r = found[0]
	}
	if !i.changed(l, r) {
		return fmt.Errorf("%s reported no error, and the record is %+v", i.call, r)
	}
	return nil
}

// callOn calls the procedure in a transaction, if it is not one by itself.
func (i interruption) callOn(ctx context.Context, conn *sql.Conn, database string, l retrysafe.Lease) error {
	inside := i.call == interruptions["complete"].call
	if inside {
		if _, err := conn.ExecContext(ctx, "START TRANSACTION"); err != nil {
			return err
		}
	}
	rows, err := conn.QueryContext(ctx, inDatabase(i.call, database), i.args(l)...)
	if err := readRows(rows, err, func(*sql.Rows) error { return nil }); err != nil || !inside {
		return err
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}
