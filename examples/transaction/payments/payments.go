// Package payments is what sqlc generates from two statements: methods of Queries on a pool or a transaction.
package payments

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Schema has two tables that must agree.
const Schema = `
CREATE TABLE IF NOT EXISTS payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL);
CREATE TABLE IF NOT EXISTS ledger (payment bigint NOT NULL REFERENCES payments, amount bigint NOT NULL);`

// DBTX runs statements.
type DBTX interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

// Queries holds the statements of the service.
type Queries struct{ db DBTX }

// New returns the statements on db.
func New(db DBTX) *Queries { return &Queries{db: db} }

// InsertPayment inserts a payment and returns its ID.
func (q *Queries) InsertPayment(ctx context.Context, amount int64) (id int64, err error) {
	err = q.db.QueryRow(ctx, "INSERT INTO payments (amount) VALUES ($1) RETURNING id", amount).Scan(&id)
	return id, err
}

// InsertEntry inserts the ledger entry of a payment.
func (q *Queries) InsertEntry(ctx context.Context, payment, amount int64) error {
	_, err := q.db.Exec(ctx, "INSERT INTO ledger (payment, amount) VALUES ($1, $2)", payment, amount)
	return err
}
