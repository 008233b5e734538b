package storekit

import (
	"bytes"
	"errors"
	"slices"

	"github.com/retrysafe/retrysafe"
)

// Batch is a set of operations that go to the database together, in one transaction, with one sync.
type Batch[O Operation] struct {
	Ops    []O
	Groups []Group[O] // by step
	// Coalesced are operations that read the same key as one of the group that reads, and get a copy of what it finds.
	Coalesced map[retrysafe.Digest][]O

	steps Steps
}

// Group is the operations of a batch that take the same step, in the order of their keys, each with another key: a
// statement changes no row twice, and rows that are locked in one order cause no deadlocks.
type Group[O Operation] []O

// Steps says of a store's steps what a batch has to know.
type Steps struct {
	Count int
	Find  Step   // reads a key's record: one read serves all that take this step
	Take  []Step // those of claims, which take a key: another claim of the same key reads what the first one has made
}

func newBatch[O Operation](s Steps) *Batch[O] {
	return &Batch[O]{Groups: make([]Group[O], s.Count), steps: s}
}

func (g Group[O]) search(d retrysafe.Digest) (i int, there bool) {
	return slices.BinarySearchFunc(g, d, func(op O, d retrysafe.Digest) int {
		return bytes.Compare(op.Base().Digest[:], d[:])
	})
}

// Find returns the operation at a key that the database has answered with.
func (g Group[O]) Find(d retrysafe.Digest) (op O, err error) {
	i, there := g.search(d)
	if !there {
		return op, errors.New("the database answered with a key that was not asked for")
	}
	return g[i], nil
}

// add puts an operation into the batch. It reports false if the operation has to wait for the next batch, because the
// same step is already there with the same key.
func (b *Batch[O]) add(op O) bool {
	c := op.Base()
	op.Begin()
	g := &b.Groups[c.Step]
	i, there := g.search(c.Digest)
	switch {
	case !there:
		*g = slices.Insert(*g, i, op)
	case c.Step == b.steps.Find:
		if b.Coalesced == nil {
			b.Coalesced = make(map[retrysafe.Digest][]O)
		}
		b.Coalesced[c.Digest] = append(b.Coalesced[c.Digest], op)
	case slices.Contains(b.steps.Take, c.Step):
		c.Step = b.steps.Find // another claim is taking the key in this batch
		return false
	default:
		return false
	}
	b.Ops = append(b.Ops, op)
	return true
}

// anew returns the batch as if it had not been sent: what a transaction that is lost has answered does not count.
func (b *Batch[O]) anew() *Batch[O] {
	n := newBatch[O](b.steps)
	for _, op := range b.Ops {
		op.Base().SentAgain = true
		n.add(op)
	}
	return n
}

// settle ends the operations that have their answer, and returns the others.
func (b *Batch[O]) settle() (again []O) {
	for _, op := range b.Ops {
		if op.Next() {
			again = append(again, op)
		} else {
			op.Base().end()
		}
	}
	return again
}
