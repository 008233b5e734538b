package sqlitestore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync/atomic"

	"github.com/retrysafe/retrysafe"
)

// Claim takes the key for one attempt, or reports who has it.
//
// What has ended, or is in flight, is answered by a read, which waits for no writer and no sync.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c := &claim{params: p, digest: p.Key.Digest(), fresh: s.guess.fresh() && s.writer.lent.Load() == nil}
	c.prepare()
	for first := true; ; first = false {
		var err error
		if !first || !c.fresh {
			err = s.readers.read(ctx, c.read)
		}
		if err == nil && !c.answered() {
			err = s.writer.write(ctx, c.write)
		}
		if err != nil {
			return retrysafe.Claim{}, fmt.Errorf("claim %s: %w", p.Key, err)
		}
		if first {
			s.guess.learn(c.inserted)
		}
		if c.answered() {
			return c.answer, nil
		}
		// It has ended: read the result.
	}
}

// guess expects the next claims to be like the last ones: of new keys, which the writer takes without a look before,
// or of known ones, which a reader answers. A wrong guess costs time, and nothing else.
type guess struct{ known atomic.Int32 }

func (g *guess) fresh() bool { return g.known.Load() <= 0 }

func (g *guess) learn(fresh bool) {
	known := g.known.Load()
	switch {
	case !fresh:
		g.known.Store(min(known+4, 32))
	case known > 0:
		g.known.Store(known - 1)
	}
}

// claim is one call of Claim.
type claim struct {
	params retrysafe.ClaimParams
	digest retrysafe.Digest
	keep   keep
	// fresh: there is no record, as far as anybody knows. inserted: now there is.
	fresh, inserted bool
	answer          retrysafe.Claim
	// values are those of insert.sql; the first four are known when it runs.
	values []driver.Value
}

// prepare does for insert what can be done before it is the writer's turn, for whom everybody waits.
func (c *claim) prepare() {
	p, k := &c.params, newKeep(c.params.Keep)
	c.keep = k
	c.values = []driver.Value{
		nil, nil, nil, nil, c.digest[:], k.replay, k.key, k.audit, p.Owner[:],
		blob(string(p.Fingerprint)), blob(p.Key.Scope), blob(p.Key.ID),
	}
}

func (c *claim) answered() bool { return c.answer.Verdict != 0 }

// read answers if the key is done or in flight. That is as good as an answer of the writer: the record was that way
// while the caller waited, and all that is visible to a reader is on disk. Anything else is the writer's business; so
// an attempt whose transaction runs longer than its lease is not taken for abandoned.
func (c *claim) read(run runner, now instant) error {
	r, err := find(run, c.digest, now)
	c.fresh = r == nil
	switch {
	case r == nil || err != nil:
		return err
	case r.expired(now), r.steps > 0 && !r.state.Ended():
		return nil // steps must be read together with their record
	}
	if v := r.verdict(&c.params, now); v == retrysafe.Done || v == retrysafe.InFlight {
		c.answer = retrysafe.Claim{Verdict: v, Record: r.view(c.params.Key, now)}
	}
	return nil
}

// write claims the key if it can. It does not answer if there is a saved result to read.
func (c *claim) write(s *session) error {
	c.answer, c.inserted = retrysafe.Claim{}, false
	if c.fresh {
		if err := c.insert(s); c.inserted || err != nil {
			return err
		}
	}
	r, err := find(s, c.digest, noBody)
	if err != nil {
		return err
	}
	if r != nil && r.expired(s.now) {
		if err := s.retire(r); err != nil {
			return err
		}
		r = nil
	}
	if r == nil {
		return c.insert(s)
	}
	return c.decide(s, r)
}

func (c *claim) decide(s *session, r *record) (err error) {
	v := r.verdict(&c.params, s.now)
	switch v {
	case retrysafe.Done:
		return nil
	case retrysafe.Acquired:
		err = c.acquire(s, r)
	}
	if err != nil {
		return err
	}
	steps, err := loadSteps(s, r)
	c.answer.Verdict, c.answer.Record = v, r.view(c.params.Key, s.now)
	c.answer.Record.Steps = steps
	return err
}

// insert adds a record if the key has none.
func (c *claim) insert(s *session) error {
	p := &c.params
	r := record{
		id: s.nextFence(), state: retrysafe.Pending, attempt: 1, endsAt: s.now + micros(p.Lease), keep: c.keep,
		owner: p.Owner, fingerprint: p.Fingerprint,
	}
	r.fence = r.id
	c.values[0], c.values[1], c.values[2], c.values[3] = r.id, r.fence, r.endsAt, s.w.room
	n, err := s.exec("insert", c.values...)
	if n == 0 || err != nil {
		return err
	}
	c.inserted = true
	s.deadlines = append(s.deadlines, deadline{r.id, r.endsAt + r.keep.key})
	c.answer = retrysafe.Claim{Verdict: retrysafe.Acquired, Lease: c.lease(r.fence), Record: r.view(p.Key, s.now)}
	return nil
}

// acquire gives r to the claim's owner under a new fence, or, if the owner holds it already, under the same.
func (c *claim) acquire(s *session, r *record) error {
	p := &c.params
	if r.state != retrysafe.Pending || r.owner != p.Owner {
		r.state, r.owner = retrysafe.Pending, p.Owner
		r.fence = s.nextFence()
		r.attempt++
		s.mark = true
	}
	r.keep, r.endsAt = c.keep, s.now+micros(p.Lease)
	c.answer.Lease = c.lease(r.fence)
	s.deadlines = append(s.deadlines, deadline{r.id, r.endsAt + r.keep.key})
	_, err := s.exec("acquire", r.id, r.fence, r.attempt, r.endsAt, r.keep.replay, r.keep.key, r.keep.audit, r.owner[:])
	return err
}

func (c *claim) lease(fence int64) retrysafe.Lease {
	return retrysafe.Lease{Key: c.params.Key, Owner: c.params.Owner, Fence: fence}
}

// retire takes an expired record out of claims: it is archived if people may still read it.
func (s *session) retire(r *record) error {
	if !r.readable(s.now) {
		return s.delete(r)
	}
	_, err := s.exec("archive", r.id)
	return err
}

func (s *session) delete(r *record) error {
	s.mark = true
	if _, err := s.exec("delete", r.id); err != nil || r.steps == 0 {
		return err
	}
	_, err := s.exec("delete_steps", r.id)
	return err
}

// noBody as the time of find leaves the answer out.
const noBody = 1<<63 - 1

// find returns the record that takes part in claims, expired or not; nil if there is none.
func find(run runner, d retrysafe.Digest, now instant) (*record, error) {
	row, err := run.first("find", now, now, d[:])
	if err != nil {
		return nil, err
	}
	return scanRecord(row)
}

func loadSteps(run runner, r *record) ([]retrysafe.StepResult, error) {
	if r.steps == 0 {
		return nil, nil
	}
	var steps []retrysafe.StepResult
	err := run.all("steps", func(row []driver.Value) error {
		s := scanner{row: row}
		steps = append(steps, retrysafe.StepResult{Name: string(s.bytes()), Data: s.bytes()})
		return s.err
	}, r.id)
	return steps, err
}

// blob is s as a value that is never NULL.
func blob(s string) []byte { return append([]byte{}, s...) }
