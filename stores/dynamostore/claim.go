package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Claim takes the key for one attempt, or reports who has it. The claim of a new key is one conditional PutItem. A
// known key is read first if the last claims were of known keys, because reading costs a fifth of writing; a large
// answer is read by one Query for each megabyte.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (c retrysafe.Claim, err error) {
	if err := ctx.Err(); err != nil {
		return c, err
	}
	t := &claiming{Store: s, p: &p, digest: p.Key.Digest().String(), keep: s.padded(p.Keep)}
	for b := (backoff{}); ; {
		c, done, err := t.try(ctx)
		if err == nil && !done {
			err = b.wait(ctx)
		}
		if err != nil {
			return retrysafe.Claim{}, call(ctx, "claim", p.Key, err)
		}
		if done {
			return c, nil
		}
	}
}

// padded is the Retention of a record. Key lasts longer by Options.MaxSkew, so that a process whose clock is ahead
// does not find the key free early.
func (s *Store) padded(r retrysafe.Retention) storekit.Keep {
	keep := storekit.NewKeep(r)
	keep.Key += s.skew
	return keep
}

// claiming is a call of Claim.
type claiming struct {
	*Store
	p      *retrysafe.ClaimParams
	digest string
	keep   storekit.Keep
	now    storekit.Instant
	found  *record // what the key has; nil: nothing
	looked bool    // found is known
	// asOf is the time from before found was read, by which it is judged: its lease may have been extended since. The next
	// try may come late, after a pause of the process.
	asOf storekit.Instant
	mine int64 // the fence of a claim of ours that the server may have made although it has not said so
}

// try makes one step: it writes what the last look calls for, and looks again if the key has changed meanwhile.
func (t *claiming) try(ctx context.Context) (c retrysafe.Claim, done bool, err error) {
	offset := t.clock.offset()
	if t.now, err = t.serverTime(ctx); err != nil {
		return c, false, err
	}
	if !t.looked && !t.guess.New() {
		if err := t.look(ctx); err != nil {
			return c, false, err
		}
	}
	if !t.clock.was(offset) { // the answer to the look shows that now is wrong: nothing is judged by it
		t.looked = false
		return c, false, nil
	}
	verdict := retrysafe.Acquired
	if t.looked {
		verdict = t.verdict()
		t.guess.Learn(t.found == nil || t.found.State == free)
	}
	taken := t.found
	if verdict == retrysafe.Acquired && !t.made(taken) {
		if taken, err = t.take(ctx); err != nil || taken == nil {
			t.looked = t.looked && t.clock.was(offset)
			return c, false, err
		}
	}
	if !t.clock.was(offset) {
		t.looked, t.mine = false, 0 // the last answer has shown that now was wrong: the claim is repeated
		return c, false, nil
	}
	c, err = t.answer(ctx, verdict, taken)
	if errors.Is(err, ErrPartMissing) && t.again(ctx, taken) {
		return retrysafe.Claim{}, false, nil
	}
	return c, true, err
}

// made reports whether r is what an earlier try has written, to which the server's answer was lost.
func (t *claiming) made(r *record) bool {
	return r != nil && t.mine != 0 && r.PendingUnder(retrysafe.Lease{Owner: t.p.Owner, Fence: t.mine})
}

// again looks at the key anew, and reports whether it has changed since.
func (t *claiming) again(ctx context.Context, since *record) bool {
	err := t.look(ctx)
	return err == nil && (t.found == nil || t.found.Fence != since.Fence || t.found.version != since.version)
}

func (t *claiming) look(ctx context.Context) error {
	found, err := t.get(ctx, itemKey(t.digest, partRecord))
	if err != nil {
		return err
	}
	return t.saw(found)
}

func (t *claiming) saw(found item) (err error) {
	t.looked, t.found, t.asOf = true, nil, t.now
	if found != nil {
		t.found, err = decode(found, t.now)
	}
	return err
}

// verdict is what the claim finds.
func (t *claiming) verdict() retrysafe.Verdict {
	if t.isFree() {
		return retrysafe.Acquired
	}
	return t.found.Verdict(t.p, t.asOf)
}

// isFree reports whether the key has no record that takes part in claims.
func (t *claiming) isFree() bool {
	return t.found == nil || t.found.State == free || t.found.Expired(t.asOf)
}

// take writes the claim. It returns nil if the key has changed since the last look; then t.found is what it has now.
func (t *claiming) take(ctx context.Context) (*record, error) {
	if t.looked && t.found != nil && t.found.State.Ended() && t.found.Audited(t.now) {
		if err := t.archive(ctx, t.found); err != nil {
			return nil, err
		}
	}
	w, after := t.claim()
	taken, err := decode(after, t.now)
	if err != nil {
		return nil, err
	}
	if w.put != nil {
		t.mine = taken.Fence
	}
	found, ok, err := t.write(ctx, itemKey(t.digest, partRecord), w)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, t.saw(found)
	}
	if !t.looked {
		t.guess.Learn(true)
	}
	return taken, t.Store.keep(ctx, t.digest, taken.steps, taken.EndsAt+taken.Keep.Key)
}

// claim is the write that makes the claim, and the record after it.
func (t *claiming) claim() (w write, after item) {
	switch {
	case !t.looked:
		after = t.fresh(0)
		w = write{condition: noRecord, values: item{":free": number(int64(free)), ":fence": after["fe"]}}
	case t.found == nil:
		after = t.fresh(0)
		w = write{condition: noItem}
	case t.isFree():
		after = t.fresh(t.found.Fence)
		w = write{condition: sameVersion, values: t.found.seen(item{})}
	case t.found.State == retrysafe.Pending && t.found.Owner == t.p.Owner:
		return t.repeat()
	default:
		after = t.resumed()
		w = write{condition: sameVersion, values: t.found.seen(item{})}
	}
	w.put = after
	return w, after
}

// fresh is a record that starts anew, after one that had this fence.
func (t *claiming) fresh(before int64) item {
	fence := max(before+1, t.now)
	i := itemKey(t.digest, partRecord)
	i["fe"], i["ff"], i["nr"], i["ca"] = number(fence), number(fence), number(1), number(t.now)
	addBytes(i, "fp", []byte(t.p.Fingerprint))
	addBytes(i, "ta", []byte(t.p.Tags.String()))
	addBytes(i, "sc", []byte(t.p.Key.Scope))
	addBytes(i, "ki", []byte(t.p.Key.ID))
	t.lease(i)
	i["ve"] = number(1)
	return i
}

// resumed is the record that was found, under a new fence.
func (t *claiming) resumed() item {
	i := maps.Clone(t.found.raw)
	i["fe"], i["nr"], i["ve"] = number(max(t.found.Fence+1, t.now)), number(t.found.Attempt+1), number(1)
	t.lease(i)
	return i
}

// repeat is the claim of an owner that has the key. It touches neither the fence nor the steps, so that any number of
// repetitions may run at once.
func (t *claiming) repeat() (w write, after item) {
	after = maps.Clone(t.found.raw)
	t.lease(after)
	values := item{":one": number(1)}
	for _, name := range []string{"kr", "kk", "ka", "en", "ex", "kt", attrTTL} {
		values[":"+name] = after[name]
	}
	l := retrysafe.Lease{Owner: t.p.Owner, Fence: t.found.Fence}
	return write{
		update: "SET kr = :kr, kk = :kk, ka = :ka, en = :en, ex = :ex, kt = :kt, expires_at = :expires_at, " +
			"ve = ve + :one REMOVE ov",
		condition: underLease, values: held(l, t.now, values),
	}, after
}

// lease adds to an item what a claim sets.
func (t *claiming) lease(i item) {
	// A process whose clock is ahead by MaxSkew must not see the lease end early.
	end := t.now + storekit.Micros(t.p.Lease) + t.skew
	i["st"], i["ow"] = number(int64(retrysafe.Pending)), bytesOf(t.p.Owner[:])
	i["kr"], i["kk"], i["ka"] = number(t.keep.Replay), number(t.keep.Key), number(t.keep.Audit)
	i["en"], i["ex"], i[attrTTL] = number(end), number(end+t.keep.Key), ttl(end+t.keep.Key)
	i["kt"] = number(seconds(t.keep.Key) + ttlMargin)
	delete(i, "ov")
}

// archive copies a record whose key has become free, and that people may still read, to where older records are. A copy
// that is there is as new, unless the record was purged since.
func (t *claiming) archive(ctx context.Context, r *record) error {
	older := maps.Clone(r.raw)
	older[attrPart] = text(olderPart(r.FirstFence))
	_, _, err := t.write(ctx, itemKey(t.digest, olderPart(r.FirstFence)), write{
		put: older, condition: "attribute_not_exists(pk) OR ve < :version", values: item{":version": number(r.version)},
	})
	return err
}

func olderPart(firstFence int64) string { return prefixOlder + fenceText(firstFence) }

// fenceText has the order of the fences.
func fenceText(fence int64) string { return fmt.Sprintf("%020d", fence) }

// answer is what Claim returns.
func (t *claiming) answer(ctx context.Context, v retrysafe.Verdict, r *record) (c retrysafe.Claim, err error) {
	if v == retrysafe.Acquired {
		c.Lease = retrysafe.Lease{Key: t.p.Key, Owner: t.p.Owner, Fence: r.Fence}
	}
	at := t.now
	if r == t.found {
		at = t.asOf
	}
	c.Verdict, c.Record = v, r.View(t.p.Key, at)
	if r.State.Ended() {
		replay := c.Record.ReplayLeft > 0
		c.Record.Result.Meta, c.Record.Result.Body = nil, nil
		if replay {
			c.Record.Result.Meta, c.Record.Result.Body, err = t.result(ctx, t.digest, r)
		}
		return c, err
	}
	c.Record.Steps, err = t.loadSteps(ctx, t.digest, r)
	return c, err
}

// result reads Meta and Body.
func (s *Store) result(ctx context.Context, digest string, r *record) (meta, body []byte, err error) {
	if r.content == nil {
		return r.Meta, r.Body, nil
	}
	data, err := s.load(ctx, digest, r.content)
	if err != nil {
		return nil, nil, err
	}
	return data[:r.content.meta:r.content.meta], data[r.content.meta:], nil
}

// loadSteps reads the steps.
func (s *Store) loadSteps(ctx context.Context, digest string, r *record) ([]retrysafe.StepResult, error) {
	var steps []retrysafe.StepResult
	for _, step := range r.steps {
		if step.parts != nil {
			data, err := s.load(ctx, digest, step.parts)
			if err != nil {
				return nil, err
			}
			step.Data = data
		}
		steps = append(steps, step.StepResult)
	}
	return steps, nil
}
