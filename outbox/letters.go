package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Letter is a dead letter: a message that is no longer retried. It stays until it is redelivered or dropped.
type Letter struct {
	Delivery
	// Error is the error text of the last try.
	Error string
	// DeadFor is the time since the message became a dead letter, on the database's clock.
	DeadFor time.Duration
}

// Dead lists up to n dead letters in the order in which they were saved. It starts behind the letter whose ID is
// after; 0 starts at the first letter.
func (b *Outbox) Dead(ctx context.Context, after int64, n int) ([]Letter, error) {
	return b.deadLetters(ctx, after, n, true)
}

// PeekDead is Dead without the bodies, which may be large.
func (b *Outbox) PeekDead(ctx context.Context, after int64, n int) ([]Letter, error) {
	return b.deadLetters(ctx, after, n, false)
}

func (b *Outbox) deadLetters(ctx context.Context, after int64, n int, bodies bool) (letters []Letter, err error) {
	rows, err := query(ctx, b.db, b.sql.dead, after, n, bodies)
	if err != nil {
		return nil, fmt.Errorf("outbox: dead letters: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		l, err := b.letter(rows, bodies)
		if err != nil {
			return nil, fmt.Errorf("outbox: dead letters: %w", err)
		}
		letters = append(letters, l)
	}
	return letters, rows.Err()
}

// Letter returns the dead letter with a key. It returns false if there is none, also if the message is pending or
// sent.
func (b *Outbox) Letter(ctx context.Context, key string) (Letter, bool, error) {
	l, err := b.letter(queryRow(ctx, b.db, b.sql.letter, []byte(key)), true)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Letter{}, false, nil
	case err != nil:
		return Letter{}, false, fmt.Errorf("outbox: dead letter: %w", err)
	}
	return l, true, nil
}

func (b *Outbox) letter(scanner interface{ Scan(into ...any) error }, bodies bool) (Letter, error) {
	var r row
	var l Letter
	var since int64
	if err := scanner.Scan(append(r.columns(), &since, &l.Error)...); err != nil {
		return Letter{}, err
	}
	l.Delivery, l.DeadFor = b.delivery(&r, bodies), fromMicros(since)
	return l, nil
}

// Redeliver makes dead letters pending again, under their old keys and with a full number of tries. It returns how
// many letters it changed; keys of messages that are not dead are ignored. The error of the last try is forgotten.
func (b *Outbox) Redeliver(ctx context.Context, keys ...string) (int, error) {
	return b.onKeys(ctx, "redeliver", b.sql.redeliver, keys, dead)
}

// Resend is Redeliver for messages that were sent, or ended by Cancel, and that have not been swept. Receivers recognise
// a key that they still keep. It returns how many messages it changed.
func (b *Outbox) Resend(ctx context.Context, keys ...string) (int, error) {
	return b.onKeys(ctx, "resend", b.sql.redeliver, keys, sent)
}

// Cancel ends messages that were not sent: dead letters, and pending ones that no relay has taken. Unlike those of Drop
// they stay known for RelayOptions.Retention, so that Put does not save them again. Their Status is Sent with an Error,
// which is the reason. Cancel returns how many messages it ended; others are ignored.
func (b *Outbox) Cancel(ctx context.Context, reason string, keys ...string) (int, error) {
	return b.onKeys(ctx, "cancel", b.sql.cancel, keys, errorText(errors.New(cmp.Or(reason, "canceled"))))
}

// Drop deletes dead letters, which are then never sent. It returns how many letters it deleted; keys of messages that
// are not dead are ignored.
func (b *Outbox) Drop(ctx context.Context, keys ...string) (int, error) {
	return b.onKeys(ctx, "drop", b.sql.drop, keys)
}

func (b *Outbox) onKeys(ctx context.Context, what string, s statement, keys []string, more ...any) (int, error) {
	if keys == nil {
		keys = []string{}
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return 0, err
	}
	n, err := b.run(ctx, s, append([]any{string(list)}, more...)...)
	if err != nil {
		return 0, fmt.Errorf("outbox: %s: %w", what, err)
	}
	return n, nil
}
