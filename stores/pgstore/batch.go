package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
)

// batch is what goes to the database together: one pipeline, one transaction, one sync. Endings come first, so that a
// claim of a key sees them.
type batch struct {
	completions group[*completion]
	extensions  group[*extension]
	releases    group[*release]
	checkpoints group[*checkpoint]
	retirements group[*claim]
	asks        group[rower]
	looks       group[looker]
	additions   group[*claim]
	takings     group[*claim]
	fellows     map[retrysafe.Digest][]looker // who look at the same key as one of looks
}

// group is the operations of a batch that share a statement, each with another key.
type group[T operation] []T

// add reports false if the key is there already: a statement changes no row twice.
func (g *group[T]) add(op T) bool {
	d := op.base().digest
	i, there := slices.BinarySearchFunc(*g, d, func(o T, d retrysafe.Digest) int {
		return bytes.Compare(o.base().digest[:], d[:])
	})
	if there {
		return false
	}
	*g = slices.Insert(*g, i, op)
	return true
}

// see has an operation look at its key: one look is good for all.
func (b *batch) see(l looker) bool {
	if b.looks.add(l) {
		return true
	}
	if b.fellows == nil {
		b.fellows = make(map[retrysafe.Digest][]looker)
	}
	d := l.base().digest
	b.fellows[d] = append(b.fellows[d], l)
	return true
}

// find returns the operation at a key. Statements answer with keys that they were given.
func (g group[T]) find(d retrysafe.Digest) (op T, err error) {
	i, there := slices.BinarySearchFunc(g, d, func(o T, d retrysafe.Digest) int {
		return bytes.Compare(o.base().digest[:], d[:])
	})
	if !there {
		return op, errors.New("the database answered with a key that was not asked for")
	}
	return g[i], nil
}

// carry takes operations to the database, and returns those that need another turn.
func (s *Store) carry(ops []operation) (again []operation) {
	ops = slices.DeleteFunc(ops, func(op operation) bool { return op.base().gone.Load() })
	if len(ops) == 0 {
		return nil
	}
	var b batch
	joined := ops[:0:0]
	for _, op := range ops {
		if op.join(&b) {
			joined = append(joined, op)
		} else {
			again = append(again, op)
		}
	}
	err := s.send(&b, joined)
	// The connection was broken before, as may be all that the pool has, or the server has restarted.
	for tries := s.pool.Stat().IdleConns() + 1; isConnectionError(err) && tries > 0; tries-- {
		err = s.sendAgain(joined)
	}
	if err == nil {
		return append(again, settled(joined)...)
	}
	if sqlState(err) == lockNotAvailable && len(joined) > 1 {
		for _, op := range joined {
			s.workers.runApart(op)
		}
		return again
	}
	if sqlState(err) != "" && len(joined) > 1 {
		for _, op := range joined {
			again = append(again, s.carryAlone(op)...)
		}
		return again
	}
	for _, op := range joined {
		again = append(again, s.retry(op, err)...)
	}
	return again
}

// sendAgain sends operations as if for the first time: what a transaction that is lost has answered does not count.
func (s *Store) sendAgain(ops []operation) error {
	var b batch
	for _, op := range ops {
		op.join(&b)
	}
	return s.send(&b, ops)
}

// carryAlone takes one operation of a batch that failed, so that it gets its own answer.
func (s *Store) carryAlone(op operation) (again []operation) {
	var b batch
	op.join(&b)
	err := s.send(&b, []operation{op})
	if err != nil {
		return s.retry(op, err)
	}
	return settled([]operation{op})
}

// maxTries is how often an operation is sent that the server refused because of others.
const maxTries = 5

// retry tries an operation again if what failed may pass, and ends it otherwise.
func (s *Store) retry(op operation, err error) (again []operation) {
	for range maxTries {
		switch sqlState(err) {
		case checkViolation:
			if err = s.addToday(); err != nil {
				op.base().fail(err)
				return nil
			}
		case serializationFailure, deadlockDetected, uniqueViolation, lockNotAvailable:
		default:
			op.base().fail(explain(err))
			return nil
		}
		var b batch
		op.join(&b)
		if err = s.send(&b, []operation{op}); err == nil {
			return settled([]operation{op})
		}
	}
	op.base().fail(explain(err))
	return nil
}

// settled ends the operations that have their answer, and returns the others.
func settled(ops []operation) (again []operation) {
	for _, op := range ops {
		if op.settle() {
			close(op.base().done)
		} else {
			again = append(again, op)
		}
	}
	return again
}

// send sends the batch and reads the answers. If it returns nil they are committed.
func (s *Store) send(b *batch, ops []operation) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Timeout)
	defer cancel()
	f := &flight{cancel: cancel}
	f.waiting.Store(int64(len(ops)))
	for _, op := range ops {
		t := op.base()
		t.in.Store(f)
		if t.gone.Load() && t.in.CompareAndSwap(f, nil) {
			f.leave()
		}
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("pgstore: connect: %w", err)
	}
	defer conn.Release()
	p := s.pipeline(b, len(ops) == 1)
	if err := conn.SendBatch(ctx, p).Close(); err != nil {
		return fmt.Errorf("pgstore: %w", err)
	}
	return nil
}

// maxLockWait is how long a statement for several waits for a row, in milliseconds.
var maxLockWait = strconv.FormatInt(patience.Milliseconds(), 10)

// manyPages is the size of a table that nobody reads from end to end for the sake of one row.
const manyPages = 128

// speaksForItself reports whether the server needs no guidance with the batch. It plans by the size that a table has, and keeps
// the plan while the table grows; but it finds a new key by the primary key alone, whatever the size, and the row of a completion
// too, once there are many pages of claims.
func (b *batch) speaksForItself(grown bool) bool {
	return len(b.additions)+len(b.takings) == 1 || grown && len(b.completions) == 1
}

// pipeline is the statements of a batch.
func (s *Store) pipeline(b *batch, alone bool) *pgx.Batch {
	p := new(pgx.Batch)
	if s.strict {
		p.Queue(beginReadCommitted)
		defer p.Queue(endReadCommitted)
	}
	switch {
	case !alone:
		p.Queue(s.sql.plannerSettings, maxLockWait)
	case !b.speaksForItself(s.grown.Load()):
		p.Queue(s.sql.plannerSettings, nil)
	}
	queue(p, s.sql.complete, b.completions, func(r pgx.Rows) error { return eachMade(r, b.completions) })
	queue(p, s.sql.extend, b.extensions, func(r pgx.Rows) error { return eachMade(r, b.extensions) })
	queue(p, s.sql.release, b.releases, func(r pgx.Rows) error { return eachMade(r, b.releases) })
	queue(p, s.sql.checkpoint, b.checkpoints, func(r pgx.Rows) error { return eachMade(r, b.checkpoints) })
	queue(p, s.sql.archive, b.retirements, nil)
	queue(p, s.sql.watch, b.asks, nil)
	queue(p, s.sql.find, b.looks, func(r pgx.Rows) error { return b.eachSeen(r) })
	queue(p, s.sql.insert, b.additions, func(r pgx.Rows) error { return eachAcquired(r, b.additions) })
	queue(p, s.sql.acquire, b.takings, func(r pgx.Rows) error { return eachAcquired(r, b.takings) })
	return p
}
