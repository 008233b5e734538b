package mysqlstore

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Seen to fail with resolve returning an error without a mark.
func TestInTxContract(t *testing.T) {
	t.Parallel()
	w := &wire{}
	db := openAt(t, w.through(shared.Get(t).Database(t)), Options{}).db
	h := storetest.TxHarness{Open: func(t *testing.T) storetest.TxStore {
		s := openOn(t, db, Options{Timeout: time.Second})
		empty(t, s)
		execute(t, s, "DROP TABLE IF EXISTS storetest_rows")
		execute(t, s, "CREATE TABLE storetest_rows (id text) ENGINE = InnoDB")
		return storetest.TxStore{
			Begin: func(ctx context.Context) (storetest.UserTx, error) { return storetest.BeginSQL(ctx, db, s.CompleteTx) },
			Store: s, TooLarge: s.packet, LoseEnd: w.loseEnd,
			InTx: func(ctx context.Context, f func(context.Context, func(string) error) error) error {
				return s.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
					return f(ctx, func(text string) error { _, err := tx.ExecContext(ctx, text); return err })
				})
			},
			Rows: func(t *testing.T) int { return value[int](t, s, "SELECT count(*) FROM storetest_rows") },
		}
	}}
	storetest.RunInTx(t, h)
	storetest.RunCompleteTx(t, h)
}
