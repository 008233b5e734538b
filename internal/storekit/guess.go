package storekit

import (
	"sync/atomic"

	"github.com/retrysafe/retrysafe"
)

// Guess expects the next claims to be like the last ones: of new keys, which are inserted without a look before, or of
// known ones, which are read first because reading writes nothing and waits for no sync. A wrong guess costs one more
// statement and changes no answer. The zero value expects new keys.
type Guess struct{ known atomic.Int32 }

// New reports whether the next claim is likely to be of a new key.
func (g *Guess) New() bool { return g.known.Load() <= 0 }

// Inserts reports whether a claim begins with an attempt to insert its record. One that says that the record is there
// does not, and is not learned from: where services complete keys, half of all claims ask for a record, and the other
// half would be looked for in vain.
func (g *Guess) Inserts(p *retrysafe.ClaimParams) bool { return g.New() && !p.Again }

// Learn takes note of whether a claim was of a new key. A known key counts as much as four new ones, because
// looking for a key in vain costs less than trying to insert one that is there.
func (g *Guess) Learn(isNew bool) {
	known := g.known.Load()
	switch {
	case !isNew:
		g.known.Store(min(known+4, 32))
	case known > 0:
		g.known.Store(known - 1)
	}
}
