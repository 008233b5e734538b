package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// batch is a set of operations that go to the database together: one pipeline, one transaction, one sync.
type batch struct {
	ops    []operation
	groups [stepCount]group
	// coalesced are operations that read the same key as one of groups[stepFind], and get a copy of what it finds.
	coalesced map[retrysafe.Digest][]operation
}

// group is the operations of a batch that share a statement, in the order of their keys, each with another key: a
// statement changes no row twice, and rows that are locked in one order cause no deadlocks.
type group []operation

func (g group) search(d retrysafe.Digest) (i int, there bool) {
	return slices.BinarySearchFunc(g, d, func(op operation, d retrysafe.Digest) int {
		return bytes.Compare(op.base().digest[:], d[:])
	})
}

// find returns the operation at a key. Statements answer with keys that they were given.
func (g group) find(k pgtype.UUID) (operation, error) {
	i, there := g.search(k.Bytes)
	if !there {
		return nil, errors.New("pgstore: the database answered with a key that was not asked for")
	}
	return g[i], nil
}

// add puts an operation into the batch. It reports false if the operation has to wait for the next batch, because the
// same statement is already there with the same key.
func (b *batch) add(op operation) bool {
	c := op.base()
	c.made, c.found = false, nil
	g := &b.groups[c.step]
	i, there := g.search(c.digest)
	switch {
	case !there:
		*g = slices.Insert(*g, i, op)
	case c.step == stepFind:
		if b.coalesced == nil {
			b.coalesced = make(map[retrysafe.Digest][]operation)
		}
		b.coalesced[c.digest] = append(b.coalesced[c.digest], op)
	case c.step == stepInsert || c.step == stepAcquire:
		c.step = stepFind // another claim is taking the key in this batch
		return false
	default:
		return false
	}
	b.ops = append(b.ops, op)
	return true
}

// run takes operations to the database, and returns those that need another step.
func (s *Store) run(ops []operation) (again []operation) {
	b := new(batch)
	for _, op := range ops {
		if !op.base().gone.Load() && !b.add(op) {
			again = append(again, op)
		}
	}
	if len(b.ops) == 0 {
		return again
	}
	err := s.send(b)
	// The connection was broken before, as may be all that the pool has, or the server has restarted.
	for tries := s.pool.Stat().IdleConns() + 1; isConnectionError(err) && tries > 0; tries-- {
		err = s.send(b.anew())
	}
	switch {
	case err == nil:
		return append(again, b.settle()...)
	case len(b.ops) == 1 || sqlState(err) == "":
		for _, op := range b.ops {
			again = append(again, s.runAlone(op, err)...)
		}
	case sqlState(err) == lockNotAvailable:
		for _, op := range b.ops {
			s.workers.RunApart(op)
		}
	default: // one of them is to blame: each gets its own answer
		for _, op := range b.ops {
			again = append(again, s.runAlone(op, nil)...)
		}
	}
	return again
}

// anew is the batch as if it had not been sent: what a transaction that is lost has answered does not count.
func (b *batch) anew() *batch {
	n := new(batch)
	for _, op := range b.ops {
		op.base().sentAgain = true
		n.add(op)
	}
	return n
}

// maxTries is how often an operation is sent that the server refused because of others.
const maxTries = 5

// runAlone sends an operation in a batch of its own until it has succeeded, or has failed with an error that does not
// pass. err is what it has failed with so far; nil: nothing.
func (s *Store) runAlone(op operation, err error) (again []operation) {
	for range maxTries {
		if err != nil {
			if c, is := op.(*claim); is && sqlState(err) == lockNotAvailable {
				if left, more := c.leaveHeld(); more {
					return []operation{op}
				} else if left {
					return nil
				}
			}
			if err = s.remedy(err); err != nil {
				break
			}
		}
		b := new(batch)
		b.add(op)
		if err = s.send(b); err == nil {
			return b.settle()
		}
	}
	op.base().fail(explain(err))
	return nil
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

// settle ends the operations that have their answer, and returns the others.
func (b *batch) settle() (again []operation) {
	for _, op := range b.ops {
		if op.next() {
			again = append(again, op)
		} else {
			close(op.base().done)
		}
	}
	return again
}

// send sends the batch and reads the answers. If it returns nil they are committed.
func (s *Store) send(b *batch) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Timeout)
	defer cancel()
	f := &flight{cancel: cancel}
	f.waiting.Store(int64(len(b.ops)))
	for _, op := range b.ops {
		c := op.base()
		c.in.Store(f)
		if c.gone.Load() && c.in.CompareAndSwap(f, nil) {
			f.leave()
		}
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("pgstore: connect: %w", err)
	}
	defer conn.Release()
	if err := conn.SendBatch(ctx, s.pipeline(b)).Close(); err != nil {
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
func (b *batch) planIsCertain(grown bool) bool {
	return len(b.groups[stepInsert])+len(b.groups[stepAcquire]) == 1 || grown && len(b.groups[stepComplete]) == 1
}

// takesOver reports whether one of the batch's claims takes an abandoned key over, which a transaction may hold.
func (b *batch) takesOver() bool {
	return slices.ContainsFunc(b.groups[stepAcquire], func(op operation) bool { return op.(*claim).abandoned != nil })
}

// pipeline is the statements of a batch.
func (s *Store) pipeline(b *batch) *pgx.Batch {
	p := new(pgx.Batch)
	if s.strict {
		p.Queue(beginReadCommitted)
		defer p.Queue(endReadCommitted)
	}
	switch {
	case len(b.ops) > 1 || b.takesOver():
		p.Queue(s.sql.plannerSettings, maxLockWait)
	case !b.planIsCertain(s.grown.Load()):
		p.Queue(s.sql.plannerSettings, nil)
	}
	for i, g := range b.groups {
		if len(g) > 0 {
			s.queue(p, step(i), g, b)
		}
	}
	return p
}

// queue adds the statement of a group to the pipeline, and says how its answer is read.
func (s *Store) queue(p *pgx.Batch, st step, g group, b *batch) {
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
		q.Query(func(rows pgx.Rows) error { return readRows(rows, b.readFound) })
	case stepInsert, stepAcquire:
		q.Query(func(rows pgx.Rows) error {
			return readRows(rows, func(row pgx.CollectableRow) error { return s.readAcquired(row, g) })
		})
	default:
		q.Query(func(rows pgx.Rows) error { return readRows(rows, g.readMade) })
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
func (g group) readMade(row pgx.CollectableRow) error {
	var k pgtype.UUID
	if err := row.Scan(&k, nil); err != nil {
		return err
	}
	op, err := g.find(k)
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
	r := new(record)
	err := row.Scan(&k, &r.Fence, &r.FirstFence, &r.ClaimedAt, &r.EndsAt, &r.Attempt, &r.saved, &r.now, &place)
	if err != nil {
		return err
	}
	op, err := g.find(k)
	if err != nil {
		return err
	}
	op.base().made, op.base().found = true, r
	if place.BlockNumber >= manyPages {
		s.grown.Store(true)
	}
	return nil
}

// readFound reads what find.sql returns: the records of the keys that have one.
func (b *batch) readFound(row pgx.CollectableRow) error {
	r := new(record)
	if err := r.scan(row, &r.began); err != nil {
		return err
	}
	op, err := b.groups[stepFind].find(pgtype.UUID{Bytes: r.digest})
	if err != nil {
		return err
	}
	op.base().found = r
	for _, op := range b.coalesced[r.digest] {
		op.base().found = r.clone()
	}
	return nil
}
