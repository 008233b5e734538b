package pgstore

import (
	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// operation is one call of a method of Store. A step of it is one row of one statement.
type operation interface {
	storekit.Operation
	base() *call
	// row is what the operation adds to the arguments of its step's statement.
	row() []any
}

// call is what all operations have.
type call struct {
	storekit.Call
	values []any // the row of the operation's own statement; the key comes first

	// What the step has answered.
	made  bool    // the statement has changed the key's row
	found *record // what find.sql has read; nil: there is no record
}

func newCall(k retrysafe.Key, first storekit.Step) call {
	return call{Call: storekit.NewCall(k, first)}
}

func (c *call) base() *call { return c }

// Begin implements storekit.Operation.
func (c *call) Begin() { c.made, c.found = false, nil }

// key is the first value of every row.
func (c *call) key() *uuid { return (*uuid)(&c.Digest) }

func (c *call) row() []any {
	if takesKey(c.Step) {
		return []any{c.key()}
	}
	return c.values
}
