package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// runner is a connection of the Store, or a transaction of the user.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// errPacket is the error of a statement that the server would refuse for its length.
var errPacket = fmt.Errorf("mysqlstore: longer than the server's max_allowed_packet: %w", retrysafe.ErrResultTooLarge)

// text fills rows into a statement.
func (s *Store) text(st *statement, r rows) (string, error) {
	text := st.literal(r)
	return text, s.fits(len(text))
}

func (s *Store) fits(n int) error {
	const header = 1 << 10 // what the protocol adds, and more
	if n+header > s.packet {
		return fmt.Errorf("%w: a statement has %d bytes, and the server takes %d: keep shorter answers, or raise it; "+
			"inside InTx a statement has twice the bytes of the answer", errPacket, n, s.packet)
	}
	return nil
}

// exec executes a statement with all rows.
func (s *Store) exec(ctx context.Context, q runner, st *statement, r rows) error {
	c, own := q.(*conn)
	for part := range r.parts(st) {
		if own && st.prepares(part) {
			if _, err := s.execPart(ctx, c, st, part); err != nil {
				return err
			}
			continue
		}
		text, err := s.text(st, part)
		if err == nil {
			_, err = q.ExecContext(ctx, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// execPart executes a prepared statement.
func (s *Store) execPart(ctx context.Context, c *conn, st *statement, part rows) (sql.Result, error) {
	prepared, args, err := s.prepare(ctx, c, st, part)
	if err != nil {
		return nil, err
	}
	return prepared.ExecContext(ctx, args...)
}

// query calls read with each row that a statement selects.
func (s *Store) query(ctx context.Context, q runner, st *statement, r rows, read func(row *sql.Rows) error) error {
	for part := range r.parts(st) {
		selected, err := s.queryPart(ctx, q, st, part)
		if err := readRows(selected, err, read); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) queryPart(ctx context.Context, q runner, st *statement, part rows) (*sql.Rows, error) {
	if c, own := q.(*conn); own && st.prepares(part) {
		prepared, args, err := s.prepare(ctx, c, st, part)
		if err != nil {
			return nil, err
		}
		return prepared.QueryContext(ctx, args...)
	}
	text, err := s.text(st, part)
	if err != nil {
		return nil, err
	}
	return q.QueryContext(ctx, text)
}

func readRows(selected *sql.Rows, err error, read func(row *sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer func() { _ = selected.Close() }()
	for selected.Next() {
		if err := read(selected); err != nil {
			return err
		}
	}
	return selected.Err()
}

// prepare returns the statement for so many rows, which a connection prepares once.
func (s *Store) prepare(ctx context.Context, c *conn, st *statement, part rows) (*sql.Stmt, []any, error) {
	n, args := part.padded()
	if err := s.fits(size(args)); err != nil {
		return nil, nil, err
	}
	key := preparedKey{st, n}
	prepared := c.prepared[key]
	if prepared == nil {
		var err error
		if prepared, err = c.PrepareContext(ctx, st.marked(n)); err != nil {
			return nil, nil, err
		}
		c.prepared[key] = prepared
	}
	return prepared, args, nil
}

// preparedKey is a statement for a number of rows.
type preparedKey struct {
	*statement
	rows int
}
