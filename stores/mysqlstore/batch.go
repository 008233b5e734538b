package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Operations reach the database in batches: those that change something in one transaction, with one sync.
type (
	batch = storekit.Batch[operation]
	group = storekit.Group[operation]
)

// server is the database as a Batcher sees it.
func (s *Store) server() storekit.Server[operation] {
	return storekit.Server[operation]{
		Steps: storekit.Steps{Count: stepCount, Find: stepFind, Take: []storekit.Step{stepInsert}},
		Send: func(ctx context.Context, b *batch) error {
			return s.with(ctx, func(c *conn) error { return s.execute(ctx, c, b) })
		},
		Timeout: s.options.Timeout, ShortLockWaits: true,
		Fault: faultOf, Remedy: s.remedy, Explain: explain, Closed: ErrClosed,
		Reconnect: func() (tries int) {
			s.conns.drop() // all that are there may be broken
			return 1
		},
	}
}

func faultOf(err error) storekit.Fault {
	switch n := errorNumber(err); {
	case isConnectionError(err):
		return storekit.Disconnected
	case n == 0 && !errors.Is(err, errPacket):
		return storekit.Unanswered
	case n == lockWaitTimeout:
		return storekit.RowLocked
	}
	return storekit.Refused
}

// remedy returns nil if an operation that failed with err may succeed when it is sent again.
func (s *Store) remedy(err error) error {
	switch errorNumber(err) {
	case noPartition:
		return s.addToday()
	case deadlock, lockWaitTimeout, changedSinceRead, notPreparedAgain:
		return nil
	}
	return err
}

// execute runs the steps of a batch. What ends attempts comes first, so that a claim of the same key in the same batch
// sees it. Reading comes last, when no row is locked any more.
func (s *Store) execute(ctx context.Context, c *conn, b *batch) error {
	changes, inserts, finds := b.Groups[stepChange], b.Groups[stepInsert], b.Groups[stepFind]
	if done, err := s.tryDirect(ctx, c, b.Ops); done || err != nil {
		return err
	}
	var err error
	if len(changes) > 0 || len(inserts) > maxPrepared || slices.ContainsFunc(inserts, isTagged) {
		err = s.changeAll(ctx, c, changes, inserts)
	} else { // one statement is a transaction by itself
		err = s.insertAll(ctx, c, inserts)
	}
	if err != nil || len(finds) == 0 {
		return err
	}
	return s.findAll(ctx, c, finds, b.Coalesced)
}

// tryDirect tries the direct statement of an operation that is alone in its batch, and reports whether the change is
// committed. If it is not, the operation takes the usual way, which decides everything else: whether the lease is
// lost, the call is repeated, or a partition is missing. The statement is tried once, whatever becomes of it. tryDirect
// returns an error only if the usual way cannot use the connection.
func (s *Store) tryDirect(ctx context.Context, c *conn, ops []operation) (done bool, err error) {
	if len(ops) != 1 {
		return false, nil
	}
	op := ops[0].base()
	d := op.direct
	if d == nil {
		return false, nil
	}
	op.direct = nil
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

// keysOf is the keys of a group as rows of a statement.
func keysOf(g group) (r rows) {
	for _, op := range g {
		r = append(r, []any{op.base().Digest[:]})
	}
	return r
}

// changeAll locks the rows of changes, writes what they decide, and inserts the rows of new keys.
func (s *Store) changeAll(ctx context.Context, c *conn, changes, inserts group) error {
	if _, err := c.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	locked, err := s.lockRows(ctx, c, s.sql.lock, keysOf(changes))
	if err != nil {
		return err
	}
	var w writes
	for _, op := range changes {
		op.decide(locked[op.base().Digest], &w)
	}
	if err := s.writeAll(ctx, c, &w); err != nil {
		return err
	}
	if err := s.insertAll(ctx, c, inserts); err != nil {
		return err
	}
	_, err = c.ExecContext(ctx, "COMMIT")
	return err
}

// lockRows locks and reads the rows of keys. Keys without a row are not in the map.
func (s *Store) lockRows(ctx context.Context, q runner, lock *statement, keys rows) (map[retrysafe.Digest]*record, error) {
	found := map[retrysafe.Digest]*record{}
	if len(keys) == 0 { // a batch of new keys alone
		return found, nil
	}
	err := s.query(ctx, q, lock, keys, func(row *sql.Rows) error {
		r := new(record)
		err := r.scan(row)
		found[r.digest] = r
		return err
	})
	return found, err
}

func (s *Store) writeAll(ctx context.Context, q runner, w *writes) error {
	return w.each(s.sql, func(st *statement, r rows) error { return s.exec(ctx, q, st, r) })
}

// insertAll takes new keys. If not all of them were new, the operations read which: see claim.next.
func (s *Store) insertAll(ctx context.Context, c *conn, g group) error {
	for part := range slices.Chunk(g, maxPrepared) {
		st, withTags := s.sql.insert, slices.ContainsFunc(part, isTagged)
		if withTags {
			st = s.sql.insertTagged
		}
		var r, tagged rows
		for _, op := range part {
			row := op.insertRow()
			if withTags {
				row = append(row, op.base().tags)
			}
			r = append(r, row)
		}
		result, err := s.execPart(ctx, c, st, r)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		at, err := result.LastInsertId()
		if err != nil {
			return err
		}
		for _, op := range part {
			op.base().triedAt, op.base().inserted = at, n == int64(len(part))
			if isTagged(op) {
				tagged = append(tagged, []any{op.base().Digest[:], at})
			}
		}
		if len(tagged) == 0 {
			continue
		}
		if err := s.exec(ctx, c, s.sql.addTags, tagged); err != nil {
			return err
		}
	}
	return nil
}

func isTagged(op operation) bool { return op.base().tags != nil }

// findAll reads the records of keys.
func (s *Store) findAll(ctx context.Context, c *conn, g group, coalesced map[retrysafe.Digest][]operation) error {
	err := s.query(ctx, c, s.sql.find, keysOf(g), func(row *sql.Rows) error {
		r := new(record)
		var n sql.NullInt64
		var name, data []byte
		if err := r.scan(row, &r.Meta, &r.Body, &n, &name, &data); err != nil {
			return err
		}
		op, err := g.Find(r.digest)
		if err != nil {
			return fmt.Errorf("mysqlstore: %w", err)
		}
		found := &op.base().found
		if *found == nil {
			*found = r
		}
		if n.Valid {
			(*found).steps = append((*found).steps, savedStep{n.Int64, retrysafe.StepResult{Name: string(name), Data: data}})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for d, ops := range coalesced {
		read, err := g.Find(d)
		if err != nil {
			return err
		}
		for _, op := range ops {
			if r := read.base().found; r != nil {
				op.base().found = r.clone()
			}
		}
	}
	return nil
}
