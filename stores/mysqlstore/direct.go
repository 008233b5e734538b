package mysqlstore

import (
	"context"

	"github.com/retrysafe/retrysafe"
)

// direct is a statement that makes a change in one round trip in the usual case: the attempt holds its key. The
// statement checks that itself, and is a transaction by itself. In all other cases it changes nothing.
type direct struct {
	*statement
	values []any
}

// directly has an operation try a statement first if it is alone in its batch.
func (c *change) directly(st *statement, values ...any) *change {
	c.direct = &direct{st, values}
	return c
}

// leaseValues are what a direct statement compares with the row of a key.
func leaseValues(l retrysafe.Lease) []any {
	d := l.Key.Digest()
	return []any{d[:], l.Owner[:], l.Fence}
}

// tryDirect tries the direct statement of an operation that is alone in its batch, and reports whether the change is
// committed. If it is not, the operation takes the usual way, which decides everything else: whether the lease is
// lost, the call is repeated, or a partition is missing. The statement is tried once, whatever becomes of it. tryDirect
// returns an error only if the usual way cannot use the connection.
func (s *Store) tryDirect(ctx context.Context, c *conn, ops []operation) (done bool, err error) {
	if len(ops) != 1 {
		return false, nil
	}
	op, ok := ops[0].(*change)
	if !ok || op.direct == nil {
		return false, nil
	}
	d := op.direct
	op.direct, op.outcome = nil, nil
	result, err := s.execPart(ctx, c, d.statement, rows{d.values})
	if isConnectionError(err) {
		return false, err
	}
	if err != nil {
		// A statement that the server interrupts runs no handler, so the procedure may have left its transaction open.
		// START TRANSACTION would commit it.
		_, err = c.ExecContext(ctx, "ROLLBACK")
		return false, err
	}
	if d.calls {
		return true, nil
	}
	n, err := result.RowsAffected()
	return n == 1, err
}
