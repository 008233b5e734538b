package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// findDue finds up to n messages that are due and are the first of their aggregates. If senders take turns and more may
// wait than a relay takes at once, half of the messages are those of the next senders. isAlone says that the relay is
// sending nothing else.
func (b *Outbox) findDue(
	ctx context.Context, conn *sql.Conn, n, blocking int, o RelayOptions, t *turns, isAlone bool,
) (found []Delivery, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var chosen []Delivery
	if o.BySender && o.Topic != "" && t.full {
		after, odd := t.after, t.odd
		if chosen, err = b.byTurn(ctx, conn, t.share(n), blocking, o.Topic, t); err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(chosen, Delivery.suspect); i >= 0 {
			if t.full = !isAlone; !isAlone { // its turn comes again when the relay is sending nothing else
				t.after, t.odd = after, odd
			}
			return chosen[i : i+1], nil
		}
	}
	if len(chosen) < n {
		found, err = b.longestDue(ctx, conn, n, blocking, o.Topic)
	}
	found = slices.DeleteFunc(found, func(d Delivery) bool {
		return slices.ContainsFunc(chosen, func(c Delivery) bool { return c.ID == d.ID })
	})
	found = append(found[:min(len(found), n-len(chosen))], chosen...)
	t.full = len(found) == n
	return found, err
}

// turns say which senders are next to have messages taken by a relay.
type turns struct {
	mu    sync.Mutex
	full  bool   // the last look has found as many messages as it could: more may wait
	odd   int    // 0 and 1 by turns, for halves of odd numbers
	after []byte // the last sender that had a turn
	// rest is when to look for other senders again, after a look that found one only.
	rest time.Time
}

const (
	// sendersAtOnce is how many senders have a turn in one look. Each costs a statement.
	sendersAtOnce = 8
	// sendersRead is how many senders one look reads until it has found these, because others have nothing that is due.
	sendersRead = 100
	// sendersRest is how long a relay does not look for other senders, if it has found one only.
	sendersRest = 100 * time.Millisecond
)

// share returns how many of n messages are those of the next senders. The other half are those that are due for
// longest, of all, so that none waits for ever behind messages of its own sender.
func (t *turns) share(n int) int {
	t.odd = 1 - t.odd
	return (n + t.odd) / 2
}

// byTurn returns up to n due messages, of the next senders that have any.
func (b *Outbox) byTurn(
	ctx context.Context, conn *sql.Conn, n, blocking int, topic string, t *turns,
) (batch []Delivery, err error) {
	if n == 0 || time.Now().Before(t.rest) {
		return nil, nil
	}
	senders, err := b.nextSenders(ctx, conn, min(n, sendersAtOnce), topic, t)
	for i := 0; i < len(senders) && err == nil; i++ {
		var found []Delivery
		found, err = b.deliveries(query(ctx, conn, b.sql.dueOf, blocking, max(n/len(senders), 1), []byte(topic), senders[i]))
		batch = append(batch, found...)
	}
	return batch, err
}

// nextSenders returns up to n senders with due messages; none if there is one sender alone.
func (b *Outbox) nextSenders(
	ctx context.Context, conn *sql.Conn, n int, topic string, t *turns,
) (due [][]byte, err error) {
	fromStart, read := len(t.after) == 0, 0
	for more := true; more && len(due) < n && read < sendersRead; {
		if more, err = b.readSenders(ctx, conn, topic, t.after, func(sender []byte, isDue bool) bool {
			if t.after = sender; isDue {
				due = append(due, sender)
			}
			read++
			return len(due) < n
		}); err != nil {
			return nil, err
		}
		if !more {
			t.after = nil // these were the last ones
		}
	}
	if fromStart && read == 1 && len(t.after) == 0 {
		due, t.rest = nil, time.Now().Add(sendersRest)
	}
	return due, nil
}

// readSenders calls do for the senders after one, until it returns false. It reports whether there may be more.
func (b *Outbox) readSenders(
	ctx context.Context, conn *sql.Conn, topic string, after []byte, do func(sender []byte, isDue bool) bool,
) (more bool, _ error) {
	rows, err := query(ctx, conn, b.sql.senders, []byte(topic), append([]byte{}, after...))
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for n := 1; rows.Next(); n++ {
		var sender []byte
		var isDue bool
		if err := rows.Scan(&sender, &isDue); err != nil {
			return false, err
		}
		if !do(sender, isDue) || n == b.sql.sendersRead {
			more = true
			break
		}
	}
	return more, rows.Err()
}

// longestDue finds up to n messages that are due and are the first of their aggregates. It first checks the thousand
// messages that have been due for longest. If too many of those wait for an earlier message, it walks through the
// aggregates, a thousand per call, and checks the messages without an aggregate. So one call takes a bounded time,
// even if many messages wait behind one.
func (b *Outbox) longestDue(ctx context.Context, conn *sql.Conn, n, blocking int, topic string) ([]Delivery, error) {
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
		var late int64
		if err := rows.Scan(append(r.columns(), &unended, &late)...); err != nil {
			return nil, err
		}
		d := b.delivery(&r, true)
		if unended {
			d.Unended = max(fromMicros(late), 1)
		}
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
