package dynamostore

import (
	"cmp"
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Extend makes the lease run for d from now, even if it has already run out. It is one conditional UpdateItem.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return s.underLease(ctx, "extend", l, func(now storekit.Instant) (bool, error) {
		offset := s.clock.offset()
		update, end := extendLease, now+storekit.Micros(d)+s.skew
		values := item{":one": number(1)}
		if d <= 0 {
			update, end = endLease, now
			values[":true"] = &types.AttributeValueMemberBOOL{Value: true}
		}
		values[":end"], values[":seconds"] = number(end), number(seconds(end))
		_, ok, err := s.write(ctx, recordKey(l), write{
			update: update, condition: underLease, values: held(l, now, values),
		})
		if err == nil && !ok {
			err = retrysafe.ErrLeaseLost
		}
		return s.clock.was(offset), err // if now was wrong, the extension is repeated
	})
}

const (
	// extendLease moves what counts from the end of the lease along with it.
	extendLease = "SET en = :end, ex = kk + :end, expires_at = kt + :seconds, ve = ve + :one REMOVE ov"
	// endLease marks the lease as ended, so that it is over by every clock.
	endLease = "SET en = :end, ex = kk + :end, expires_at = kt + :seconds, ve = ve + :one, ov = :true"
)

func recordKey(l retrysafe.Lease) item { return itemKey(l.Key.Digest().String(), partRecord) }

// underLease calls change with the time until it is done.
func (s *Store) underLease(ctx context.Context, verb string, l retrysafe.Lease,
	change func(now storekit.Instant) (done bool, err error),
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for b := (backoff{}); ; {
		now, err := s.serverTime(ctx)
		done := false
		if err == nil {
			done, err = change(now)
		}
		if err == nil && !done {
			err = b.wait(ctx)
		}
		if err != nil || done {
			return call(ctx, verb, l.Key, err)
		}
	}
}

// Checkpoint saves one step's result under the lease. If the step's name is already saved, the first result stays. It
// is one conditional UpdateItem; a step of more than 4 KB costs a read, and a write for each 384 KB, besides.
//
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended, and ErrResultTooLarge
// for a step of more than [MaxBytes], and for one with which the steps do not fit into one item of 400 KB.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	saved := savedStep{StepResult: step}
	split := len(step.Data) > maxInlineStep
	left := room[:]
	if isTrail(saved) {
		left = room[:endRoom]
	}
	return s.underLease(ctx, "checkpoint", l, func(now storekit.Instant) (bool, error) {
		if split && saved.parts == nil {
			if err := s.split(ctx, l, &saved, now); err != nil {
				return true, err
			}
		}
		found, ok, err := s.write(ctx, recordKey(l), write{
			update:    "SET sp = list_append(if_not_exists(sp, :none), :steps), ro = :room, ve = ve + :one ADD sn :names",
			condition: underLease + " AND (attribute_not_exists(sn) OR NOT contains(sn, :name))",
			values: held(l, now, item{
				":none": encodeSteps(nil), ":steps": encodeSteps([]savedStep{saved}), ":one": number(1),
				":names": stepNames([]savedStep{saved}), ":name": bytesOf(stepName(step.Name)), ":room": bytesOf(left),
			}),
		})
		switch {
		case ok:
			return true, nil
		case err == nil:
			return true, s.notSaved(ctx, l, found, saved, now)
		case isTooLarge(err) && !split:
			split = true // the steps before it leave no room for it
			return false, nil
		case isTooLarge(err):
			return true, tooManySteps(err)
		}
		return true, err
	})
}

// room is kept free in the item of a record with steps, so that a person's decision and the end of the attempt fit into
// it. The last endRoom bytes are for the end alone: what that adds takes less, if the answer is in parts. An entry of
// the trail takes about as much.
var room [endRoom + 512]byte

const endRoom = 256

// split saves a step in parts, if the lease holds.
func (s *Store) split(ctx context.Context, l retrysafe.Lease, step *savedStep, now storekit.Instant) error {
	r, err := s.read(ctx, l, now)
	if err != nil {
		return err
	}
	if r == nil || !r.PendingUnder(l) {
		return retrysafe.ErrLeaseLost
	}
	until := max(r.EndsAt, now) + r.Keep.Key + stepYear
	step.parts, err = s.save(ctx, l.Key.Digest().String(), l.Fence, step.Data, until)
	return err
}

// notSaved is what Checkpoint returns if the condition did not hold: nil if the step was saved before.
func (s *Store) notSaved(
	ctx context.Context, l retrysafe.Lease, found item, step savedStep, now storekit.Instant,
) error {
	r, err := live(found, now)
	if err != nil {
		return err
	}
	saved := r != nil && r.PendingUnder(l) && r.hasStep(step.Name)
	if step.parts != nil && (!saved || !r.names(step.parts)) {
		_ = s.remove(ctx, l.Key.Digest().String(), step.parts) // otherwise DynamoDB deletes them in time
	}
	if saved {
		return nil
	}
	return retrysafe.ErrLeaseLost
}

// names reports whether the record names these parts.
func (r *record) names(p *parts) bool {
	for _, s := range r.steps {
		if s.parts != nil && s.parts.prefix == p.prefix {
			return true
		}
	}
	return r.content != nil && r.content.prefix == p.prefix
}

// live is the record of an item that takes part in claims, or nil.
func live(found item, now storekit.Instant) (*record, error) {
	if found == nil {
		return nil, nil
	}
	r, err := decode(found, now)
	if err != nil || r.State == free || r.Expired(now) {
		return nil, err
	}
	return r, nil
}

// read returns the record of the lease's key that takes part in claims, or nil.
func (s *Store) read(ctx context.Context, l retrysafe.Lease, now storekit.Instant) (*record, error) {
	found, err := s.get(ctx, recordKey(l))
	if err != nil {
		return nil, err
	}
	return live(found, now)
}

// Complete saves the result and ends the attempt, even if its lease has run out. When this lease has already completed,
// the first result stays. It is one conditional UpdateItem; a result of more than 32 KB costs a write for each 384 KB
// besides.
//
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has released it, and
// ErrResultTooLarge for a result of more than [MaxBytes].
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	c := &completion{store: s, lease: l, result: r, keep: s.padded(keep)}
	return s.underLease(ctx, "complete", l, func(now storekit.Instant) (bool, error) {
		if err := c.split(ctx, now); err != nil {
			return true, err
		}
		w := c.write(now)
		w.returns = true
		found, ok, err := s.write(ctx, recordKey(l), w)
		switch {
		case ok:
			return true, cmp.Or(s.recount(ctx, l, now, c.write), c.keepSteps(ctx, found, now))
		case err == nil:
			return true, c.notSaved(ctx, found, now)
		case isTooLarge(err) && c.content == nil:
			c.large = true // the steps leave no room for it
			return false, nil
		case isTooLarge(err):
			return true, tooManySteps(err)
		}
		return true, err
	})
}

// Release gives the key up at once, without a result: for any request if no steps were saved, for the same request if
// there are any. It is one conditional PutItem, which leaves the fence behind for an hour; with steps a second write
// follows. It returns ErrLeaseLost if another attempt has the key, or if this one has completed.
func (s *Store) Release(ctx context.Context, l retrysafe.Lease) error {
	stepped := false
	return s.underLease(ctx, "release", l, func(now storekit.Instant) (bool, error) {
		w := forget(l, now)
		if stepped {
			w = released(l, now)
		}
		found, ok, err := s.write(ctx, recordKey(l), w)
		switch {
		case ok && stepped:
			return true, s.recount(ctx, l, now, func(now storekit.Instant) write { return released(l, now) })
		case ok, err != nil:
			return true, err
		}
		r, err := live(found, now)
		switch {
		case err != nil || r == nil || r.State == retrysafe.Released:
			return true, err // no attempt has the key
		case !r.PendingUnder(l):
			return true, retrysafe.ErrLeaseLost
		}
		stepped = len(r.steps) > 0
		return false, nil
	})
}

// released releases a key with steps.
func released(l retrysafe.Lease, now storekit.Instant) write {
	return write{
		update:    "SET st = :state, en = :now, ex = kk + :now, expires_at = kt + :seconds, ve = ve + :one REMOVE ov",
		condition: underLease + " AND attribute_exists(sp)",
		values: held(l, now, item{
			":state": number(int64(retrysafe.Released)), ":seconds": number(seconds(now)), ":one": number(1),
		}),
	}
}

// recount makes the retention of an attempt that has just ended count from now, if more than Options.MaxSkew has passed
// since the time at which its record says that it has ended: the machine may have stood still before the request left.
// again is what ended the attempt.
func (s *Store) recount(
	ctx context.Context, l retrysafe.Lease, ended storekit.Instant, again func(now storekit.Instant) write,
) error {
	now, err := s.serverTime(ctx)
	if err != nil || now-ended <= s.skew {
		return err
	}
	w := again(now)
	w.condition = "ow = :owner AND fe = :fence AND st = :state AND st <> :pending AND en < :now"
	_, _, err = s.write(ctx, recordKey(l), w)
	return err
}

// forget releases a key without steps. A fence stays, so that the next one is larger whatever a clock says: that of the
// lease, or the time if that is larger. A claim of the same owner that was sent before and arrives late names a fence
// between them, if it was to repeat a claim whose answer was lost.
func forget(l retrysafe.Lease, now storekit.Instant) write {
	return write{
		put:       tombstone(l.Key.Digest().String(), l.Owner, max(l.Fence, now), now),
		condition: underLease + " AND attribute_not_exists(sp)",
		values:    held(l, now, item{}),
	}
}

func tombstone(digest string, o retrysafe.Owner, fence int64, now storekit.Instant) item {
	i := itemKey(digest, partRecord)
	i["st"], i["ow"], i["fe"], i["ve"] = number(int64(free)), bytesOf(o[:]), number(fence), number(0)
	i[attrTTL] = ttl(now)
	return i
}
