package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Held describes an aggregate in which messages wait for an earlier one.
type Held struct {
	// First is the first message of the aggregate that is not sent, without its body.
	First Delivery
	// Waiting is the number of pending messages behind First.
	Waiting int
	// Dead says that First is a dead letter. Relays with RelayOptions.PassDead send the messages behind it; for others
	// an operator has to redeliver or drop it.
	Dead bool
	// InFlight says that a relay has taken First, and that its lease still runs.
	InFlight bool
	// Delay is the time until First is due, or until its lease ends; 0 if it is due, or dead.
	Delay time.Duration
	// Error is the error text of the last try of First; empty if none has failed.
	Error string
}

// Held returns up to n aggregates in which messages wait for an earlier one, those with the most waiting messages
// first. It reads pending and dead messages that have an aggregate, not those that were sent.
func (b *Outbox) Held(ctx context.Context, n int) (all []Held, err error) {
	rows, err := query(ctx, b.db, b.sql.held, n)
	if err != nil {
		return nil, fmt.Errorf("outbox: held aggregates: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var (
			r     row
			h     Held
			state int
			taken bool
			delay int64
		)
		if err := rows.Scan(append(r.columns(), &h.Waiting, &state, &taken, &delay, &h.Error)...); err != nil {
			return nil, fmt.Errorf("outbox: held aggregates: %w", err)
		}
		h.First, h.Dead = b.delivery(&r, false), state == dead
		if !h.Dead {
			h.Delay = max(fromMicros(delay), 0)
			h.InFlight = taken && h.Delay > 0
		}
		all = append(all, h)
	}
	return all, rows.Err()
}

// Find returns the options of the outboxes in a database, for tools that are not told their names. On PostgreSQL these
// are the outboxes of all schemas whose tables the user may read; on MySQL and MariaDB those of the connection's
// database. It leaves out tables whose names New would refuse. It returns an error if the dialect is unknown or the
// database fails.
func Find(ctx context.Context, db *sql.DB, d Dialect) (all []Options, err error) {
	if _, err := newStatements(d, Options{}); err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, sqlFile(d, "find"))
	if err != nil {
		return nil, fmt.Errorf("outbox: find: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var o Options
		if err := rows.Scan(&o.Schema, &o.Table); err != nil {
			return nil, fmt.Errorf("outbox: find: %w", err)
		}
		if _, err := newStatements(d, o); err == nil {
			all = append(all, o)
		}
	}
	return all, rows.Err()
}
