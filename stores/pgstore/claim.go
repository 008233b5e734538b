package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Claim takes the key for one attempt, or reports who has it.
//
// What is expected to be new is taken at once, and read only if it is not; what is expected to be known is read, which
// writes nothing and waits for no sync.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c := &claim{turn: newTurn(p.Key), store: s, params: p, values: newClaimValues(p)}
	if !s.guess.New() {
		c.next = see
	}
	if err := s.do(ctx, c); err != nil {
		return retrysafe.Claim{}, fmt.Errorf("claim %s: %w", p.Key, err)
	}
	s.guess.Learn(c.answer.Verdict == retrysafe.Acquired && c.answer.Record.Attempt == 1)
	return c.answer, nil
}

// claim is one call of Claim. It runs errands until it has an answer.
type claim struct {
	turn
	store  *Store
	params retrysafe.ClaimParams
	values claimValues
	next   errand
	turns  int

	acquired bool    // by the last turn
	steps    int     // that the acquired key has
	found    *record // by the last turn
	answer   retrysafe.Claim
}

// errand is what a claim does in one turn.
type errand uint8

const (
	add       errand = iota // the key, if nobody has it
	take                    // the key, if it can be had
	see                     // who has it
	ask                     // to be told when that ends
	retire                  // what is left of an expired record
	readSteps               // of the key that was taken: as long as it is held nobody else can add any
)

// maxTurns bounds how often a key may change hands while one claim of it is being answered.
const maxTurns = 1000

var errTooManyTurns = errors.New("pgstore: the key changed hands again and again")

func (c *claim) join(b *batch) bool {
	c.found, c.acquired = nil, false
	switch c.next {
	case see, readSteps:
		return b.see(c)
	case ask:
		return b.asks.add(c)
	case retire:
		return b.retirements.add(c)
	}
	claims := &b.additions
	if c.next == take {
		claims = &b.takings
	}
	if !claims.add(c) {
		c.next = see // somebody is just taking it
		return false
	}
	return true
}

// look is told what is known of the key.
func (c *claim) look(r *record) { c.found = r }

func (c *claim) settle() bool {
	if c.turns++; c.turns > maxTurns {
		c.err = errTooManyTurns
		return true
	}
	var done bool
	c.next, done = c.after()
	return done
}

// after says what comes after a turn, or that there is an answer.
func (c *claim) after() (next errand, done bool) {
	switch c.next {
	case add, take:
		switch {
		case !c.acquired:
			return see, false
		case c.steps > 0:
			return readSteps, false
		}
		return 0, true
	case see:
		if c.found == nil {
			return take, false
		}
		return c.judge(c.found)
	case readSteps:
		if c.found == nil || !c.found.PendingUnder(c.answer.Lease) {
			return see, false // it was lost meanwhile, and its steps may be gone
		}
		c.answer.Record.Steps = c.found.steps()
		return 0, true
	case ask:
		return see, false // it may have ended before it was asked
	}
	return take, false
}

// judge answers with what was found, if it is an answer.
func (c *claim) judge(r *record) (next errand, done bool) {
	v := r.Verdict(&c.params, r.now)
	switch {
	case r.State == retrysafe.Pending && r.began < r.EndsAt && r.EndsAt <= r.now:
		return see, false // whether it had run out, or was extended, when it was seen nobody can tell
	case r.Expired(r.now) && (r.saved > 0 || r.Audited(r.now)):
		return retire, false
	case r.Expired(r.now):
		return take, false
	case v == retrysafe.InFlight && r.State == retrysafe.Pending && !r.waiters && c.store.watches.Has(c.digest):
		return ask, false
	case v == retrysafe.Acquired:
		return take, false
	}
	c.answer = retrysafe.Claim{Verdict: v, Record: r.view(c.params.Key)}
	return 0, true
}

// claimValues are what insert.sql and acquire.sql take beside the key's digest.
type claimValues struct {
	owner                  uuid
	lease                  number
	keep                   storekit.Keep
	waiters, takeOver      boolean
	fingerprint, scope, id binary
}

func newClaimValues(p retrysafe.ClaimParams) claimValues {
	return claimValues{
		owner: uuid(p.Owner), lease: micros(p.Lease), keep: storekit.NewKeep(p.Keep), takeOver: boolean(p.TakeOver),
		fingerprint: binary(p.Fingerprint), scope: binary(p.Key.Scope), id: binary(p.Key.ID),
	}
}

// row is that of the errand: the whole claim to take the key, the key alone for all others.
func (c *claim) row() []any {
	if c.next != add && c.next != take {
		return []any{c.key()}
	}
	v := &c.values
	v.waiters = boolean(c.store.watches.Has(c.digest))
	return []any{
		c.key(), &v.owner, &v.lease, (*number)(&v.keep.Replay), (*number)(&v.keep.Key), (*number)(&v.keep.Audit), &v.waiters, &v.takeOver,
		&v.fingerprint, &v.scope, &v.id,
	}
}

// eachAcquired reads what insert.sql and acquire.sql return: the keys that were taken.
func eachAcquired(rows pgx.Rows, claims group[*claim]) error {
	defer rows.Close()
	var (
		k     pgtype.UUID
		r     record
		steps int
		place pgtype.TID
	)
	for rows.Next() {
		if err := rows.Scan(&k, &r.Fence, &r.FirstFence, &r.ClaimedAt, &r.EndsAt, &r.Attempt, &steps, &r.now, &place); err != nil {
			return err
		}
		c, err := claims.find(k.Bytes)
		if err != nil {
			return err
		}
		r.State, r.Keep, r.Fingerprint = retrysafe.Pending, c.values.keep, c.params.Fingerprint
		c.acquired, c.steps = true, steps
		if place.BlockNumber >= manyPages {
			c.store.grown.Store(true)
		}
		c.answer = retrysafe.Claim{
			Verdict: retrysafe.Acquired,
			Lease:   retrysafe.Lease{Key: c.params.Key, Owner: c.params.Owner, Fence: r.Fence},
			Record:  r.view(c.params.Key),
		}
	}
	return rows.Err()
}

// looker is an operation that reads what is known of its key.
type looker interface {
	rower
	look(r *record)
}

// eachSeen reads what find.sql returns: what is known of the keys that are known.
func (b *batch) eachSeen(rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		r := new(record)
		if err := r.scan(rows, &r.began); err != nil {
			return err
		}
		l, err := b.looks.find(r.digest)
		if err != nil {
			return err
		}
		l.look(r)
		for _, f := range b.fellows[r.digest] {
			f.look(r.clone())
		}
	}
	return rows.Err()
}
