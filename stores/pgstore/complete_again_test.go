package pgstore

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A service whose COMMIT has succeeded without its knowing runs its transaction again, as wrappers of drivers do: the
// second one is refused, although its answer is the same. Within a transaction the same call twice is nothing, also after
// a savepoint.
//
// Seen to fail with a mark that a session keeps (false as the last argument of set_config in mark_ended): two charges.
func TestCompleteIsRefusedInASecondTransaction(t *testing.T) {
	ctx := context.Background()
	s := openTest(t)
	execute(t, s, "CREATE TABLE charges (amount bigint)")
	var lease string
	if err := s.pool.QueryRow(ctx, "SELECT lease FROM retrysafe.claim('shop', 'order-17')").Scan(&lease); err != nil {
		t.Fatal(err)
	}
	complete := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT retrysafe.complete($1, 'charged')", lease)
		return err
	}
	charge := func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO charges VALUES (10)"); err != nil {
			return err
		}
		return complete(tx)
	}
	twice := func(tx pgx.Tx) error {
		return errors.Join(pgx.BeginFunc(ctx, tx, charge), complete(tx), pgx.BeginFunc(ctx, tx, complete))
	}
	for i, step := range []struct {
		work func(pgx.Tx) error
		want string
	}{{twice, ""}, {charge, "RS004"}, {complete, "RS004"}} {
		err := pgx.BeginFunc(ctx, s.pool, step.work)
		refused := new(pgconn.PgError)
		if errors.As(err, &refused); refused.Code != step.want || err != nil && step.want == "" {
			t.Errorf("transaction %d: %v, want %q", i+1, err, step.want)
		}
	}
	var charges int
	if err := s.pool.QueryRow(ctx, "SELECT count(*) FROM charges").Scan(&charges); err != nil || charges != 1 {
		t.Errorf("%d charges, %v; want 1", charges, err)
	}
}
