package mysqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// batch is a set of operations that go to the database together: those that change something in one transaction, with
// one sync.
type batch struct {
	ops    []operation
	groups [stepCount]group
	// coalesced are operations that read the same key as one of groups[stepFind], and get a copy of what it finds.
	coalesced map[retrysafe.Digest][]operation
}

// group is the operations of a batch that share statements, in the order of their keys, each with another key: rows
// that are locked in one order cause no deadlocks.
type group []operation

func (g group) search(d retrysafe.Digest) (i int, there bool) {
	return slices.BinarySearchFunc(g, d, func(op operation, d retrysafe.Digest) int {
		return bytes.Compare(op.base().digest[:], d[:])
	})
}

func (g group) keys() (r rows) {
	for _, op := range g {
		r = append(r, []any{op.base().digest[:]})
	}
	return r
}

// add puts an operation into the batch. It reports false if the operation has to wait for the next batch, because the
// same step is already there with the same key.
func (b *batch) add(op operation) bool {
	c := op.base()
	c.inserted, c.found = false, nil
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
	case c.step == stepInsert:
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
	if isConnectionError(err) { // it was broken before, as may be all that are there, or the server has restarted
		s.conns.drop()
		err = s.send(b.anew())
	}
	switch {
	case err == nil:
		return append(again, b.settle()...)
	case len(b.ops) == 1 || errorNumber(err) == 0 && !errors.Is(err, errPacket):
		for _, op := range b.ops {
			again = append(again, s.runAlone(op, err)...)
		}
	case errorNumber(err) == lockWaitTimeout:
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
// pass. err is what it has failed with so far; nil: nothing. It waits for a locked row until Options.Timeout.
func (s *Store) runAlone(op operation, err error) (again []operation) {
	deadline := time.Now().Add(s.options.Timeout)
	for tries := 0; tries < maxTries; tries++ {
		if c, is := op.(*claim); is && errorNumber(err) == lockWaitTimeout {
			if left, more := c.leaveHeld(); more {
				return []operation{op}
			} else if left {
				return nil
			}
		}
		if errorNumber(err) == lockWaitTimeout && time.Now().Before(deadline) && !op.base().gone.Load() {
			tries = 0
		}
		if err != nil {
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
	switch errorNumber(err) {
	case noPartition:
		return s.addToday()
	case deadlock, lockWaitTimeout, changedSinceRead:
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
	return s.with(ctx, func(c *conn) error { return s.execute(ctx, c, b) })
}

// execute runs the steps of a batch. What ends attempts comes first, so that a claim of the same key in the same batch
// sees it. Reading comes last, when no row is locked any more.
func (s *Store) execute(ctx context.Context, c *conn, b *batch) error {
	changes, inserts, finds := b.groups[stepChange], b.groups[stepInsert], b.groups[stepFind]
	if done, err := s.tryDirect(ctx, c, b.ops); done || err != nil {
		return err
	}
	var err error
	if len(changes) > 0 || len(inserts) > maxPrepared {
		err = s.changeAll(ctx, c, changes, inserts)
	} else { // one statement is a transaction by itself
		err = s.insertAll(ctx, c, inserts)
	}
	if err != nil || len(finds) == 0 {
		return err
	}
	return s.findAll(ctx, c, finds, b.coalesced)
}

// changeAll locks the rows of changes, writes what they decide, and inserts the rows of new keys.
func (s *Store) changeAll(ctx context.Context, c *conn, changes, inserts group) error {
	if _, err := c.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	locked, err := s.lockRows(ctx, c, s.sql.lock, changes.keys())
	if err != nil {
		return err
	}
	var w writes
	for _, op := range changes {
		op.decide(locked[op.base().digest], &w)
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
		var r rows
		for _, op := range part {
			r = append(r, op.insertRow())
		}
		result, err := s.execPart(ctx, c, s.sql.insert, r)
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
		}
	}
	return nil
}

// findAll reads the records of keys.
func (s *Store) findAll(ctx context.Context, c *conn, g group, coalesced map[retrysafe.Digest][]operation) error {
	err := s.query(ctx, c, s.sql.find, g.keys(), func(row *sql.Rows) error {
		r := new(record)
		var n sql.NullInt64
		var name, data []byte
		if err := r.scan(row, &r.Meta, &r.Body, &n, &name, &data); err != nil {
			return err
		}
		i, there := g.search(r.digest)
		if !there {
			return errors.New("mysqlstore: the database answered with a key that was not asked for")
		}
		found := &g[i].base().found
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
		i, _ := g.search(d)
		for _, op := range ops {
			if r := g[i].base().found; r != nil {
				op.base().found = r.clone()
			}
		}
	}
	return nil
}
