package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"sync"
)

// findDue finds up to n messages that are due and are the first of their aggregates. It first checks the thousand
// messages that have been due for longest. If too many of those wait for an earlier message, it walks through the
// aggregates, a thousand per call, and checks the messages without an aggregate. So one call takes a bounded time,
// even if many messages wait behind one.
func (b *Outbox) findDue(ctx context.Context, conn *sql.Conn, n, blocking int, topic string) ([]Delivery, error) {
	batch, err := b.deliveries(query(ctx, conn, b.sql.due, blocking, n, []byte(topic)))
	if err != nil || len(batch) == n {
		return batch, err
	}
	heads, err := b.heads(ctx, conn, blocking)
	if err != nil || heads == nil {
		return batch, err
	}
	return b.deliveries(query(ctx, conn, b.sql.dueHeads, asJSON(heads), n, []byte(topic)))
}

// walk is the position from which the next call continues through the aggregates.
type walk struct {
	mu    sync.Mutex
	after []byte // the last aggregate seen, in byte order
}

// walkLength is the number of aggregates that heads.sql reads.
const walkLength = 1000

// heads returns the IDs of the first messages of the next thousand aggregates, or of the remaining ones. It returns
// nil if due.sql has already seen all due messages.
func (b *Outbox) heads(ctx context.Context, conn *sql.Conn, blocking int) (ids []int64, err error) {
	b.walk.mu.Lock()
	defer b.walk.mu.Unlock()
	rows, err := query(ctx, conn, b.sql.heads, blocking, append([]byte{}, b.walk.after...))
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

// deliveries reads rows into deliveries, and counts the try that begins.
func (b *Outbox) deliveries(rows *sql.Rows, err error) (batch []Delivery, _ error) {
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
		d := b.delivery(&r, true)
		d.unended = unended
		d.Try++ // the try that begins now
		batch = append(batch, d)
	}
	return batch, rows.Err()
}

// asJSON returns a list of IDs as JSON.
func asJSON(ids []int64) string {
	text, _ := json.Marshal(ids) // integers cannot fail
	return string(text)
}
