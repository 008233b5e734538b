package sqlitestore

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Claim takes the key for one attempt, or reports who has it.
//
// A key that is done or in flight is answered by a read, which waits for no writer and no sync. A new key is refused
// with [retrysafe.ErrStoreFull] if only the reserve of the disk is left, or not even that. It returns [ErrClosed],
// [ErrDamaged], or [ErrInsideTransaction] if it was called inside InTx.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c := &claim{params: p, digest: p.Key.Digest(), fresh: s.guess.New() && s.writer.holder.Load() == nil}
	c.prepare()
	for first := true; ; first = false {
		var err error
		if !first || !c.fresh {
			err = s.readers.read(ctx, c.read)
		}
		if err == nil && !c.answered() {
			err = s.writer.write(ctx, c.write)
		}
		if c.inserted && isFull(err) {
			err = fmt.Errorf("%w: %w", retrysafe.ErrStoreFull, err)
		}
		if err != nil {
			return retrysafe.Claim{}, fmt.Errorf("claim %s: %w", p.Key, err)
		}
		if first {
			s.guess.Learn(c.inserted)
		}
		if c.answered() {
			return c.answer, nil
		}
		// It has ended: read the result.
	}
}

// claim is one call of Claim.
type claim struct {
	params retrysafe.ClaimParams
	digest retrysafe.Digest
	hash   keyHash
	keep   storekit.Keep
	// fresh: no record is known. inserted: one has been added, or its insertion has failed.
	fresh, inserted bool
	answer          retrysafe.Claim
	// values are those of insert.sql; the first four are known when it runs.
	values []driver.Value
}

// prepare does what insert needs and the writer's goroutine need not do, because all operations wait for that one.
func (c *claim) prepare() {
	p, k := &c.params, storekit.NewKeep(c.params.Keep)
	c.keep = k
	c.values = []driver.Value{
		nil, nil, nil, nil, c.digest[:], k.Replay, k.Key, k.Audit, p.Owner[:],
		blob(string(p.Fingerprint)), blob(p.Key.Scope), blob(p.Key.ID), blobOrNull(p.Tags.String()),
	}
	c.hash = hashOf(p.Key.ID)
}

func (c *claim) answered() bool { return c.answer.Verdict != 0 }

// read answers if the key is done or in flight. That is as good as an answer of the writer: the record was in that
// state while the caller waited, and all that a reader sees is on disk. The writer answers in all other cases, so
// that an attempt whose transaction runs for longer than its lease is not taken for abandoned.
func (c *claim) read(run runner, now instant) error {
	r, err := find(run, c.digest, now)
	c.fresh = r == nil
	switch {
	case r == nil || err != nil:
		return err
	case r.Expired(now), r.steps > 0 && !r.State.Ended():
		return nil // steps must be read together with their record
	}
	if v := r.Verdict(&c.params, now); v == retrysafe.Done || v == retrysafe.InFlight {
		c.answer = retrysafe.Claim{Verdict: v, Record: r.View(c.params.Key, now)}
	}
	return nil
}

// write claims the key if it can. It does not answer if there is a saved result to read.
func (c *claim) write(s *writeTx) error {
	c.answer, c.inserted = retrysafe.Claim{}, false
	if c.fresh && s.checkSpace() == nil {
		if err := c.insert(s); c.inserted || err != nil {
			return err
		}
	}
	r, err := find(s, c.digest, noBody)
	if err != nil {
		return err
	}
	if r != nil && !r.Expired(s.now) {
		return c.decide(s, r)
	}
	if err := s.checkSpace(); err != nil {
		return err
	}
	if r != nil {
		if err := s.archive(r); err != nil {
			return err
		}
	}
	return c.insert(s)
}

func (c *claim) decide(s *writeTx, r *record) (err error) {
	v := r.Verdict(&c.params, s.now)
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
	c.answer.Verdict, c.answer.Record = v, r.View(c.params.Key, s.now)
	c.answer.Record.Steps = steps
	return err
}

// insert adds a record if the key has none.
func (c *claim) insert(s *writeTx) error {
	p := &c.params
	id := s.nextFence()
	r := storekit.Record{
		State: retrysafe.Pending, Owner: p.Owner, Fence: id, FirstFence: id, Attempt: 1, ClaimedAt: id,
		EndsAt: s.now + storekit.Micros(p.Lease), Keep: c.keep, Fingerprint: p.Fingerprint, Tags: p.Tags,
	}
	c.values[0], c.values[1], c.values[2], c.values[3] = id, id, r.EndsAt, s.w.room
	n, err := s.exec("insert", c.values...)
	if c.inserted = n > 0 || err != nil; n == 0 || err != nil {
		return err
	}
	for tag := range p.Tags.Lines() {
		if _, err := s.exec("insert_tag", blob(tag), id); err != nil {
			return err
		}
	}
	s.hashes.add(id, c.hash)
	s.deadlines = append(s.deadlines, deadline{id, r.EndsAt + r.Keep.Key})
	c.answer = retrysafe.Claim{Verdict: retrysafe.Acquired, Lease: c.lease(r.Fence), Record: r.View(p.Key, s.now)}
	return nil
}

// acquire gives r to the claim's owner under a new fence, or, if the owner holds it already, under the same.
func (c *claim) acquire(s *writeTx, r *record) error {
	p := &c.params
	if r.State != retrysafe.Pending || r.Owner != p.Owner {
		r.State, r.Owner = retrysafe.Pending, p.Owner
		r.Fence = s.nextFence()
		r.Attempt++
		s.mark = true
	}
	r.Keep, r.EndsAt = c.keep, s.now+storekit.Micros(p.Lease)
	c.answer.Lease = c.lease(r.Fence)
	s.deadlines = append(s.deadlines, deadline{r.id(), r.EndsAt + r.Keep.Key})
	_, err := s.exec("acquire", r.id(), r.Fence, r.Attempt, r.EndsAt, r.Keep.Replay, r.Keep.Key, r.Keep.Audit, r.Owner[:])
	return err
}

func (c *claim) lease(fence int64) retrysafe.Lease {
	return retrysafe.Lease{Key: c.params.Key, Owner: c.params.Owner, Fence: fence}
}

// archive takes an expired record out of claims: it is archived if people may still read it.
func (s *writeTx) archive(r *record) error {
	if !r.Readable(s.now) {
		return s.delete(r)
	}
	_, err := s.exec("archive", r.id())
	return err
}

func (s *writeTx) delete(r *record) error {
	s.mark = true
	if _, err := s.exec("delete", r.id()); err != nil || r.steps == 0 {
		return err
	}
	_, err := s.exec("delete_steps", r.id())
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
	}, r.id())
	return steps, err
}

// blob is s as a value that is never NULL.
func blob(s string) []byte { return append([]byte{}, s...) }
