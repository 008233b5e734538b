package outbox

import (
	"context"
	"database/sql"
	"fmt"
)

// Save writes a message in the caller's transaction: it will be sent if that commits, and never was if it does not. exec is the
// transaction's function that executes a statement, of database/sql, pgx, or what has the like; R is its result, which has a method
// RowsAffected.
//
//	err := outbox.Save(ctx, box, tx.ExecContext, m) // tx is a *sql.Tx
//	err := outbox.Save(ctx, box, tx.Exec, m)        // tx is a pgx.Tx
//
// Save may be repeated: the same message under the same key is saved once, also when it has been sent since and is still kept. Inside
// an attempt, a message without a key is saved by the first attempt to do so; what a later attempt gives instead is not looked at.
//
// It returns an error that is ErrInvalidMessage if the message cannot be saved, and one that is ErrKeyTaken if a different message has
// the key: of an attempt's messages with the same topic and aggregate each needs a Name.
func Save[R any](ctx context.Context, box *Outbox, exec func(ctx context.Context, sql string, args ...any) (R, error), m Message) error {
	m, savedBy := keyed(ctx, m)
	if err := m.validate(); err != nil {
		return err
	}
	header, err := encodeHeader(m.Header)
	if err != nil {
		return fmt.Errorf("%w: the header: %w", ErrInvalidMessage, err)
	}
	result, err := exec(ctx, box.sql.save,
		[]byte(m.Key), []byte(m.Topic), []byte(m.Aggregate), header, append([]byte{}, m.Body...), m.digest(), savedBy)
	if err != nil {
		return fmt.Errorf("outbox: save: %w", err)
	}
	switch n, err := rowsAffected(result); {
	case err != nil:
		return fmt.Errorf("outbox: save: %w", err)
	case n == 0:
		return fmt.Errorf("%w: topic %q", ErrKeyTaken, m.Topic)
	}
	return nil
}

// rowsAffected asks the result of any driver.
func rowsAffected(result any) (int64, error) {
	switch r := result.(type) {
	case sql.Result:
		return r.RowsAffected()
	case interface{ RowsAffected() int64 }:
		return r.RowsAffected(), nil
	}
	return 0, fmt.Errorf("a %T does not say how many rows were affected", result)
}
