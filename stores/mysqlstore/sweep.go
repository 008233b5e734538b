package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

// piece is how many records are deleted in one transaction, which takes less time than a claim under load.
const piece = 200

// sweeper is what a Store knows of sweeping.
type sweeper struct {
	pass       storekit.Turn // one pass at a time; it guards what follows
	maintained time.Time     // when the partitions were
	looked     [2][]byte     // up to which key tables of kept were looked through
	indexed    time.Time     // when records were, for searches
	indexTime  time.Duration // the constant of that name, but in tests of slow servers
}

func newSweeper() sweeper { return sweeper{pass: storekit.NewTurn(), indexTime: indexTime} }

// Sweep deletes up to limit records that are past their retention, in small transactions, and returns how many. Now and
// then it makes the partitions of the next days, and drops those whose answers may not be read any more. It notes in
// which state records are, and which scopes they have, so that List and Find need not read the others. It pauses for
// half of the time, so that claims are not slowed down. One process at a time sweeps; in the others Sweep returns 0. It
// may be called by many goroutines at once, and returns an error when ctx ends.
func (s *Store) Sweep(ctx context.Context, limit int) (swept int, err error) {
	if err := ctx.Err(); err != nil || limit <= 0 {
		return 0, err
	}
	if err := s.sweeper.pass.Take(ctx); err != nil {
		return 0, err
	}
	defer s.sweeper.pass.End()
	err = s.with(ctx, func(c *conn) error {
		return locked(ctx, c, lockName("sweep", s.options.Database), 0, func() error {
			if swept, err = s.sweepAll(ctx, c, limit); err != nil {
				return err
			}
			if err := s.sweepKept(ctx, c); err != nil {
				return err
			}
			if err := s.indexRecords(ctx, c); err != nil {
				return err
			}
			// Last, because it fails while a transaction that a program has left open uses the table of answers, which must
			// not keep records from being deleted.
			return s.maintainPartitions(ctx)
		})
	})
	switch {
	case errors.Is(err, errLocked):
		return 0, nil
	case err != nil:
		return swept, fmt.Errorf("sweep: %w", explain(err))
	}
	return swept, nil
}

// source is a table that is swept, and the statements for that.
type source struct{ due, lock, deletion *statement }

func (s *Store) sweepAll(ctx context.Context, c *conn, limit int) (swept int, err error) {
	for _, from := range []source{
		{s.sql.dueClaims, s.sql.sweepClaims, s.sql.deleteClaims},
		{s.sql.dueOlder, s.sql.sweepOlder, s.sql.deleteOlder},
	} {
		for swept < limit {
			n, began := min(limit-swept, piece), time.Now()
			p, err := s.sweepPiece(ctx, c, from, n)
			if swept += len(p.gone); err != nil {
				return swept, err
			}
			if p.due < n || len(p.gone)+len(p.later) == 0 { // nothing more is due, or all of it is locked
				break
			}
			storekit.Rest(ctx, time.Since(began))
		}
	}
	return swept, nil
}

// pieceSwept is what a transaction has swept.
type pieceSwept struct {
	due                int  // how many records were
	gone, steps, later rows // those that were deleted, those of them with steps, those that are due later
}

// sweepPiece deletes up to n of the records whose minute has come, if they have expired; the others get the minute in
// which they do.
func (s *Store) sweepPiece(ctx context.Context, c *conn, from source, n int) (p pieceSwept, err error) {
	var keys rows
	err = s.query(ctx, c, from.due, rows{{n}}, func(row *sql.Rows) error {
		var k sql.RawBytes
		var firstFence int64
		err := row.Scan(&k, &firstFence)
		keys = append(keys, []any{slices.Clone([]byte(k)), firstFence})
		return err
	})
	if err != nil || len(keys) == 0 {
		return p, err
	}
	p.due = len(keys)
	if _, err := c.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return p, err
	}
	if err := s.query(ctx, c, from.lock, keys, p.read); err != nil {
		return pieceSwept{}, err
	}
	for _, part := range []struct {
		*statement
		rows
	}{{from.deletion, p.gone}, {s.sql.dropSteps, p.steps}, {s.sql.lookLater, p.later}} {
		if len(part.rows) == 0 {
			continue
		}
		if err := s.exec(ctx, c, part.statement, part.rows); err != nil {
			return pieceSwept{}, err
		}
	}
	if _, err := c.ExecContext(ctx, "COMMIT"); err != nil {
		return pieceSwept{}, err
	}
	return p, s.dropKeptOf(ctx, c, p.gone)
}

// dropKeptOf deletes what is kept beside records that are gone.
func (s *Store) dropKeptOf(ctx context.Context, c *conn, gone rows) error {
	if len(gone) == 0 {
		return nil
	}
	var keys []byte
	for i, values := range gone {
		if i > 0 {
			keys = append(keys, ',')
		}
		keys = appendLiteral(keys, values[0])
	}
	for _, table := range s.sql.kept {
		if err := s.dropOrphans(ctx, c, table, fmt.Sprintf("t.k IN (%s)", keys)); err != nil {
			return err
		}
	}
	return nil
}

// looks is how many rows of a table of kept a pass looks at.
const looks = 1000

// sweepKept deletes tags and sightings whose record is gone, among as many rows as one pass looks at: those of keys
// that began anew, that a program of an earlier version has swept, or that were added during a sweep.
func (s *Store) sweepKept(ctx context.Context, c *conn) error {
	for i, table := range s.sql.kept {
		after := &s.sweeper.looked[i]
		begin := string(appendLiteral(nil, *after))
		next := table.next.filled("{{after}}", begin).literal(rows{{looks}})
		if err := c.QueryRowContext(ctx, next).Scan(after); err != nil {
			return err
		}
		if *after == nil { // the end: the next pass begins at the first key
			continue
		}
		where := fmt.Sprintf("t.k > %s AND t.k <= %s", begin, appendLiteral(nil, *after))
		if err := s.dropOrphans(ctx, c, table, where); err != nil {
			return err
		}
	}
	return nil
}

// dropOrphans deletes rows whose record is gone. No record comes back.
func (s *Store) dropOrphans(ctx context.Context, c *conn, table kept, where string) error {
	var orphans rows
	err := s.query(ctx, c, table.orphans.filled("{{where}}", where), nil, func(row *sql.Rows) error {
		var k []byte
		var firstFence int64
		err := row.Scan(&k, &firstFence)
		orphans = append(orphans, []any{k, firstFence})
		return err
	})
	if err != nil || len(orphans) == 0 {
		return err
	}
	if _, err := c.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	if err := s.exec(ctx, c, table.deletion, orphans); err != nil {
		return err
	}
	_, err = c.ExecContext(ctx, "COMMIT")
	return err
}

// read decides what becomes of a record that was locked.
func (p *pieceSwept) read(row *sql.Rows) error {
	var k sql.RawBytes
	var firstFence, saved, deadline, now int64
	if err := row.Scan(&k, &firstFence, &saved, &deadline, &now); err != nil {
		return err
	}
	key := slices.Clone([]byte(k))
	if deadline > now {
		p.later = append(p.later, []any{key, deadline / minute})
		return nil
	}
	p.gone = append(p.gone, []any{key, firstFence})
	if saved > 0 {
		p.steps = append(p.steps, []any{key, firstFence})
	}
	return nil
}
