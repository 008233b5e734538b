package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"sync"
)

// look finds up to n messages that are due, and that are the first of their aggregates. It looks at the thousand that have been due for
// longest. If too many of those wait for another message, it goes through the aggregates, a thousand at a time, and through
// the messages that have none: so a look takes the same time however many messages wait behind one.
func (b *Outbox) look(ctx context.Context, conn *sql.Conn, n, blocking int) ([]Delivery, error) {
	batch, err := deliveries(conn.QueryContext(ctx, b.sql.due, blocking, n))
	if err != nil || len(batch) == n {
		return batch, err
	}
	heads, err := b.heads(ctx, conn, blocking)
	if err != nil || heads == nil {
		return batch, err
	}
	return deliveries(conn.QueryContext(ctx, b.sql.dueHeads, asJSON(heads), n))
}

// walk is where the next look goes through the aggregates.
type walk struct {
	mu    sync.Mutex
	after []byte // in the order of bytes
}

// walkLength is how many aggregates heads.sql goes through.
const walkLength = 1000

// heads returns the IDs of messages that are the first of their aggregates: those of the next thousand aggregates, and in the end of fewer. It
// returns nil if due.sql has seen everything that is due.
func (b *Outbox) heads(ctx context.Context, conn *sql.Conn, blocking int) (ids []int64, err error) {
	b.walk.mu.Lock()
	defer b.walk.mu.Unlock()
	rows, err := conn.QueryContext(ctx, b.sql.heads, blocking, append([]byte{}, b.walk.after...))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&b.walk.after, &id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if len(ids) < walkLength {
		b.walk.after = nil
	}
	return ids, rows.Err()
}

// deliveries reads the tries that begin.
func deliveries(rows *sql.Rows, err error) (batch []Delivery, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		var unended bool
		if err := rows.Scan(append(r.columns(), &unended)...); err != nil {
			return nil, err
		}
		d := r.delivery()
		d.unended = unended
		d.Try++ // the one that begins
		batch = append(batch, d)
	}
	return batch, rows.Err()
}

// asJSON writes a list of IDs.
func asJSON(ids []int64) string {
	text, _ := json.Marshal(ids) // numbers always can be
	return string(text)
}
