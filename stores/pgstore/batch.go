package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Operations reach the database in batches: one pipeline, one transaction, one sync.
type (
	batch = storekit.Batch[operation]
	group = storekit.Group[operation]
)

// server is the database as a Batcher sees it.
func (s *Store) server() storekit.Server[operation] {
	return storekit.Server[operation]{
		Steps: storekit.Steps{Count: stepCount, Find: stepFind, Take: []storekit.Step{stepInsert, stepAcquire}},
		Send:  s.send, Timeout: s.options.Timeout,
		Fault: faultOf, Remedy: s.remedy, Explain: explain, Closed: ErrClosed,
		Reconnect: func() (tries int) { return int(s.pool.Stat().IdleConns()) + 1 },
	}
}

func faultOf(err error) storekit.Fault {
	switch state := sqlState(err); {
	case isConnectionError(err), state == readOnlyTransaction: // another connection may reach the primary
		return storekit.Disconnected
	case state == "":
		return storekit.Unanswered
	case state == lockNotAvailable:
		return storekit.RowLocked
	}
	return storekit.Refused
}

// remedy returns nil if an operation that failed with err may succeed when it is sent again.
func (s *Store) remedy(err error) error {
	switch sqlState(err) {
	case checkViolation:
		return s.addToday()
	case serializationFailure, deadlockDetected, uniqueViolation, lockNotAvailable:
		return nil
	}
	return err
}

// send sends the batch and reads the answers. If it returns nil they are committed.
func (s *Store) send(ctx context.Context, b *batch) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("pgstore: connect: %w", err)
	}
	defer conn.Release()
	if err := conn.SendBatch(ctx, s.pipeline(b)).Close(); err != nil {
		if sqlState(err) == readOnlyTransaction {
			_ = conn.Conn().Close(ctx) // the pool would lend it again, although by now there may be another primary
		}
		return fmt.Errorf("pgstore: %w", err)
	}
	return nil
}

// maxLockWait is how long a statement for several operations, or one that takes a key over, waits for a row, in
// milliseconds. insert.sql says so too.
var maxLockWait = strconv.FormatInt(storekit.Patience.Milliseconds(), 10)

// manyPages is the size from which on the server does not choose to read a whole table for the sake of one row.
const manyPages = 128

// planIsCertain reports whether one operation alone needs no planner settings. The server plans by the size that a
// table has, and keeps the plan while the table grows; but it finds a new key by the primary key alone, whatever the
// size, and the row of a completion too, once there are many pages of claims.
func planIsCertain(b *batch, grown bool) bool {
	return len(b.Groups[stepInsert])+len(b.Groups[stepAcquire]) == 1 || grown && len(b.Groups[stepComplete]) == 1
}

// takesOver reports whether one of the batch's claims takes an abandoned key over, which a transaction may hold.
func takesOver(b *batch) bool {
	return slices.ContainsFunc(b.Groups[stepAcquire], func(op operation) bool { return op.(*claim).TakesOver() })
}

// mayBeLost reports whether the batch need not outlive a crash of the server: it is claims with Async, and nothing else.
func mayBeLost(b *batch) bool {
	return !slices.ContainsFunc(b.Ops, func(op operation) bool {
		c, isClaim := op.(*claim)
		return !isClaim || !c.Params.Async
	})
}

// pipeline is the statements of a batch.
func (s *Store) pipeline(b *batch) *pgx.Batch {
	p := new(pgx.Batch)
	if s.strict {
		p.Queue(beginReadCommitted)
		defer p.Queue(endReadCommitted)
	}
	if mayBeLost(b) {
		p.Queue(s.sql.commitAsync)
	}
	switch {
	case len(b.Ops) > 1 || takesOver(b):
		p.Queue(s.sql.plannerSettings, maxLockWait)
	case !planIsCertain(b, s.grown.Load()):
		p.Queue(s.sql.plannerSettings, nil)
	}
	for i, g := range b.Groups {
		if len(g) > 0 {
			s.queue(p, storekit.Step(i), g, b)
		}
	}
	return p
}

// queue adds the statement of a group to the pipeline, and says how its answer is read.
func (s *Store) queue(p *pgx.Batch, st storekit.Step, g group, b *batch) {
	text, args := s.sql.steps[st].many, []any(nil)
	if len(g) == 1 {
		text, args = s.sql.steps[st].one, g[0].row()
	} else {
		args = columnsOf(g)
	}
	q := p.Queue(text, args...)
	switch st {
	case stepArchive, stepWatch: // they answer nothing
	case stepFind:
		q.Query(func(rows pgx.Rows) error {
			return readRows(rows, func(row pgx.CollectableRow) error { return readFound(row, b) })
		})
	case stepInsert, stepAcquire:
		q.Query(func(rows pgx.Rows) error {
			return readRows(rows, func(row pgx.CollectableRow) error { return s.readAcquired(row, g) })
		})
	default:
		q.Query(func(rows pgx.Rows) error {
			return readRows(rows, func(row pgx.CollectableRow) error { return readMade(row, g) })
		})
	}
}

func readRows(rows pgx.Rows, read func(row pgx.CollectableRow) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readMade reads what the statements of changes return: the keys whose rows they have changed, and nothing of interest.
func readMade(row pgx.CollectableRow, g group) error {
	var k pgtype.UUID
	if err := row.Scan(&k, nil); err != nil {
		return err
	}
	op, err := g.Find(k.Bytes)
	if err != nil {
		return err
	}
	op.base().made = true
	return nil
}

// readAcquired reads what insert.sql and acquire.sql return: the keys that were taken, and where their rows are.
func (s *Store) readAcquired(row pgx.CollectableRow, g group) error {
	var k pgtype.UUID
	var place pgtype.TID
	var tags []byte
	r := new(record)
	err := row.Scan(&k, &r.Fence, &r.FirstFence, &r.ClaimedAt, &r.EndsAt, &r.Attempt, &r.saved, &r.now, &place, &tags)
	if err != nil {
		return err
	}
	op, err := g.Find(k.Bytes)
	if err != nil {
		return err
	}
	r.tags = tagsOf(tags)
	op.base().made, op.base().found = true, r
	if place.BlockNumber >= manyPages {
		s.grown.Store(true)
	}
	return nil
}

// readFound reads what find.sql returns: the records of the keys that have one.
func readFound(row pgx.CollectableRow, b *batch) error {
	r := new(record)
	if err := r.scan(row, &r.began); err != nil {
		return err
	}
	op, err := b.Groups[stepFind].Find(r.digest)
	if err != nil {
		return err
	}
	op.base().found = r
	for _, op := range b.Coalesced[r.digest] {
		op.base().found = r.clone()
	}
	return nil
}
