package dynamostore

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// completion is the write that ends an attempt.
type completion struct {
	store   *Store
	lease   retrysafe.Lease
	result  retrysafe.Result
	keep    storekit.Keep
	steps   []savedStep // saved along with the result, by InTx
	tokens  []string    // of the transactions that were asked for, the newest last; none: it is not part of one
	large   bool        // the result does not fit into the record
	content *parts      // holds the result; nil: it is in the record
}

func (c *completion) digest() string { return c.lease.Key.Digest().String() }

// token is that of the transaction; "" if the completion is not part of one.
func (c *completion) token() string {
	if len(c.tokens) == 0 {
		return ""
	}
	return c.tokens[len(c.tokens)-1]
}

// madeIn reports whether one of the transactions has completed the record that was found.
func (c *completion) madeIn(found item) bool { return slices.Contains(c.tokens, textOf(found["tk"])) }

// until is when nothing of the record is needed any more.
func (c *completion) until(now storekit.Instant) storekit.Instant {
	return now + max(c.keep.Key, c.keep.Audit)
}

// split saves a large result in parts.
func (c *completion) split(ctx context.Context, now storekit.Instant) (err error) {
	size := len(c.result.Meta) + len(c.result.Body)
	if c.content != nil || size <= maxInlineResult && !c.large {
		return nil
	}
	data := slices.Concat(c.result.Meta, c.result.Body)
	if c.content, err = c.store.save(ctx, c.digest(), c.lease.Fence, data, c.until(now)); err != nil {
		return err
	}
	c.content.meta = int64(len(c.result.Meta))
	return nil
}

func (c *completion) write(now storekit.Instant) write {
	w := write{
		update: "SET st = :state, en = :now, ex = :expires, au = :audited, expires_at = :ttl, kr = :replay, kk = :key, " +
			"ka = :audit, co = :code, ve = ve + :one",
		condition: underLease,
		values: held(c.lease, now, item{
			":state": number(int64(c.result.State())), ":expires": number(now + c.keep.Key),
			":audited": number(now + c.keep.Audit), ":ttl": ttl(c.until(now)), ":code": number(int64(c.result.Code)),
			":replay": number(c.keep.Replay), ":key": number(c.keep.Key), ":audit": number(c.keep.Audit), ":one": number(1),
		}),
	}
	set := func(name string, v types.AttributeValue) {
		w.update += ", " + name + " = :" + name
		w.values[":"+name] = v
	}
	if c.result.Omitted {
		set("om", &types.AttributeValueMemberBOOL{Value: true})
	}
	if c.token() != "" {
		set("tk", text(c.token()))
	}
	switch {
	case c.content != nil:
		set("pa", c.content.encode())
	default:
		if len(c.result.Meta) > 0 {
			set("me", bytesOf(c.result.Meta))
		}
		if len(c.result.Body) > 0 {
			set("bo", bytesOf(c.result.Body))
		}
	}
	if len(c.steps) == 0 {
		w.update += " REMOVE ov, kt, ro"
		return w
	}
	w.update += ", sp = list_append(if_not_exists(sp, :none), :steps) REMOVE ov, kt, ro ADD sn :names"
	w.values[":none"], w.values[":steps"], w.values[":names"] = encodeSteps(nil), encodeSteps(c.steps), stepNames(c.steps)
	for i, step := range c.steps {
		name := fmt.Sprintf(":name%d", i)
		w.condition += " AND (attribute_not_exists(sn) OR NOT contains(sn, " + name + "))"
		w.values[name] = bytesOf(stepName(step.Name))
	}
	return w
}

// keepSteps makes what was saved of the attempt last as long as its result.
func (c *completion) keepSteps(ctx context.Context, before item, now storekit.Instant) error {
	r, err := decode(before, now)
	if err != nil {
		return err
	}
	return c.store.keep(ctx, c.digest(), r.steps, c.until(now))
}

// notSaved is what Complete returns if the condition did not hold: nil if this lease has completed before.
func (c *completion) notSaved(ctx context.Context, found item, now storekit.Instant) error {
	r, err := live(found, now)
	if err != nil {
		return err
	}
	if c.content != nil && (r == nil || !r.names(c.content)) {
		_ = c.store.remove(ctx, c.digest(), c.content) // otherwise DynamoDB deletes them in time
	}
	if r != nil && r.State.Ended() && r.ClaimedUnder(c.lease) {
		return nil
	}
	return retrysafe.ErrLeaseLost
}

func tooManySteps(err error) error {
	return fmt.Errorf("%w: the record has so many steps that nothing more fits into its item: save fewer or smaller "+
		"steps: %w", retrysafe.ErrResultTooLarge, err)
}
