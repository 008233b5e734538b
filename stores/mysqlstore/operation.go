package mysqlstore

import (
	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// The steps of operations.
const (
	stepChange storekit.Step = iota // locks the key's row, and decides what becomes of it
	stepInsert                      // takes a key that has no record
	stepFind                        // reads the record
	stepCount  = iota
)

// operation is one call of a method of Store.
type operation interface {
	storekit.Operation
	base() *call
	// insertRow is what stepInsert adds to its statement.
	insertRow() []any
	// decide is stepChange: it reads the row that has been locked, changes it, and adds what is to be written to w. r is
	// nil if the key has no row. It may be called again for another transaction, if this one fails.
	decide(r *record, w *writes)
}

// call is what all operations have.
type call struct {
	storekit.Call

	direct *direct // nil: there is none, or it has been tried
	tags   []byte  // for the record that stepInsert makes; nil: none

	// What the step has answered.
	triedAt  instant // when stepInsert tried to insert a row
	inserted bool    // it has; otherwise it may have, which stepFind shows
	found    *record // what stepFind has read; nil: there is no record
}

func newCall(k retrysafe.Key, first storekit.Step) call {
	return call{Call: storekit.NewCall(k, first)}
}

func (c *call) base() *call { return c }

// Begin implements storekit.Operation.
func (c *call) Begin() { c.inserted, c.found = false, nil }

func (c *call) insertRow() []any { return nil }

// direct is a statement that makes a change in one round trip in the usual case: the attempt holds its key. The
// statement checks that itself, and is a transaction by itself. In all other cases it changes nothing.
type direct struct {
	*statement
	values []any
}

// writes are what the operations of a batch change, as rows of statements.
type writes struct{ claims, archive, dropSteps, steps, results, tags, tagged rows }

// change writes the row of a record that was locked.
func (w *writes) change(r *record) { w.claims = append(w.claims, r.row()) }

// each calls f with each statement and its rows, in the order in which they must be executed: a record is archived
// before its row changes.
func (w *writes) each(q *statements, f func(st *statement, r rows) error) error {
	for _, part := range []struct {
		*statement
		rows
	}{
		{q.archive, w.archive},
		{q.dropSteps, w.dropSteps},
		{q.write, w.claims},
		{q.setTags, w.tags},
		{q.addTags, w.tagged},
		{q.addSteps, w.steps},
		{q.addResults, w.results},
	} {
		if len(part.rows) == 0 {
			continue
		}
		if err := f(part.statement, part.rows); err != nil {
			return err
		}
	}
	return nil
}
