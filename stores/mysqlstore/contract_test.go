package mysqlstore

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/stores/internal/testkit"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Seen to fail with resolve returning an error without a mark, and with db.BeginTx in the place of storekit.Begin.
func TestInTxContract(t *testing.T) {
	t.Parallel()
	w := &wire{}
	dsn := w.through(shared.Get(t).Database(t))
	db, work := openAt(t, dsn, Options{}).db, openPool(t, dsn) // the Store gives some of its own connections back
	h := storetest.TxHarness{Open: func(t *testing.T) storetest.TxStore {
		timeout := defaultTimeout
		if strings.HasSuffix(t.Name(), "/completetx-open") {
			timeout = time.Second // the rule waits until it is over
		}
		s := openOn(t, db, Options{Timeout: timeout})
		s.options.Timeout = time.Second // of the question for what has become of a COMMIT
		empty(t, s)
		execute(t, s, "DROP TABLE IF EXISTS storetest_rows")
		execute(t, s, "CREATE TABLE storetest_rows (id text) ENGINE = InnoDB")
		return storetest.TxStore{
			Begin: func(ctx context.Context) (storetest.UserTx, error) {
				return storetest.BeginSQL(ctx, work, s.CompleteTx)
			},
			Store: s, TooLarge: s.packet, LoseEnd: w.loseEnd,
			Occupy: func(t *testing.T) (free func()) { return testkit.Occupy(t, work) },
			InTx: func(ctx context.Context, f func(context.Context, func(string) error) error) error {
				return s.InTx(ctx, work, func(ctx context.Context, tx *sql.Tx) error {
					return f(ctx, func(text string) error { _, err := tx.ExecContext(ctx, text); return err })
				})
			},
			Rows: func(t *testing.T) int { return value[int](t, s, "SELECT count(*) FROM storetest_rows") },
		}
	}}
	storetest.RunInTx(t, h)
	storetest.RunCompleteTx(t, h)
}
