package plain

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// RelayTable is an outbox as most articles have it: a flag says what was sent.
const RelayTable = `CREATE TABLE plain_outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text NOT NULL,
	body bytea NOT NULL, sent boolean NOT NULL DEFAULT false);
CREATE INDEX ON plain_outbox (id) WHERE NOT sent`

// Relay takes up to n messages, hands each to send, and flags them, in one transaction which keeps them locked meanwhile. It
// returns how many it has taken.
func Relay(ctx context.Context, pool *pgxpool.Pool, n int, send func(body []byte)) (taken int, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, topic, body FROM plain_outbox WHERE NOT sent ORDER BY id LIMIT $1
			FOR UPDATE SKIP LOCKED`, n)
		if err != nil {
			return err
		}
		var ids []int64
		var id int64
		var topic string
		var body []byte
		if _, err := pgx.ForEachRow(rows, []any{&id, &topic, &body}, func() error {
			ids = append(ids, id)
			send(body)
			return nil
		}); err != nil {
			return err
		}
		taken = len(ids)
		_, err = tx.Exec(ctx, "UPDATE plain_outbox SET sent = true WHERE id = ANY ($1)", ids)
		return err
	})
	return taken, err
}
