package outbox

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/outbox"
)

// The functions read backslashes as they were written, whatever the session of the caller has set. Seen to fail without
// 003_backslashes.sql.
func TestSaveThroughSQLReadsBackslashes(t *testing.T) {
	t.Parallel()
	k := newKit(t, outbox.PostgreSQL)
	conn, err := pgx.Connect(t.Context(), k.url+"&standard_conforming_strings=off&escape_string_warning=off")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, payload := range []string{"'paid'", "'{}'::jsonb", "repeat('x', 200)::bytea"} {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT outbox_save('orders', NULL, "+payload+")", pgx.QueryExecModeSimpleProtocol)
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", payload, err)
		}
	}
}
