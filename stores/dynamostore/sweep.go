package dynamostore

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// fenceMargin is how old the fence of a record must be for a sweep to delete it. A younger one stays until then, so
// that the next fence of the key is larger whichever process's clock gives it.
const fenceMargin = 10 * 60 * 1_000_000

// Sweep does nothing, and returns 0, if DynamoDB's time to live is on for the table, as it should be. Otherwise it
// deletes records past their retention and drops answers that may not be read any more, of up to limit records. It
// then reads the table from its beginning until it has found as many, so it is for small tables and for stand-ins of
// DynamoDB that have no time to live.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	on, err := s.expires(ctx)
	if err != nil || on || limit <= 0 {
		return 0, wrapSweep(err)
	}
	swept := 0
	in := &dynamodb.ScanInput{
		TableName: &s.table, ConsistentRead: aws.Bool(true),
		FilterExpression:          aws.String("expires_at <= :seconds OR ex <= :now OR au <= :now"),
		ExpressionAttributeValues: item{},
	}
	for {
		now, err := s.serverTime(ctx)
		if err != nil {
			return swept, wrapSweep(err)
		}
		in.ExpressionAttributeValues[":now"] = number(now)
		in.ExpressionAttributeValues[":seconds"] = number(now / 1_000_000)
		out, err := s.client.Scan(ctx, in, s.clock.measured)
		if err != nil {
			return swept, wrapSweep(err)
		}
		for _, i := range out.Items {
			counts, err := s.sweep(ctx, i, now)
			if err != nil {
				return swept, wrapSweep(err)
			}
			if counts {
				swept++
			}
			if swept == limit {
				return swept, nil
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return swept, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

func wrapSweep(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sweep: %w", explain(err))
}

// expires reports whether DynamoDB deletes items by itself.
func (s *Store) expires(ctx context.Context) (bool, error) {
	out, err := s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.table}, s.clock.measured)
	if err != nil {
		return false, err
	}
	d := out.TimeToLiveDescription
	return d != nil && d.TimeToLiveStatus == types.TimeToLiveStatusEnabled && aws.ToString(d.AttributeName) == attrTTL, nil
}

// sweep handles an item that may be due, and reports whether it counts: parts and fences do not.
func (s *Store) sweep(ctx context.Context, i item, now storekit.Instant) (counts bool, err error) {
	at := itemKey(textOf(i[attrKey]), textOf(i[attrPart]))
	if i["st"] == nil {
		_, err := s.delete(ctx, at, "expires_at = :ttl", item{":ttl": i[attrTTL]})
		return false, err
	}
	r, err := decode(i, now)
	switch {
	case err != nil:
		return false, err
	case r.State == free:
		_, err := s.delete(ctx, at, sameVersion, r.seen(item{}))
		return false, err
	case !r.Readable(now):
		return s.bury(ctx, at, r, now)
	case r.State.Ended() && !r.Audited(now-s.skew) && i["au"] != nil: // not even by a clock that is MaxSkew behind
		ok, err := s.dropContent(ctx, r, nil)
		if ok {
			err = s.removeAll(ctx, r)
		}
		return ok, err
	}
	return false, nil
}

// bury deletes a record whose retention has passed.
func (s *Store) bury(ctx context.Context, at item, r *record, now storekit.Instant) (ok bool, err error) {
	if r.part() == partRecord && r.Fence > now-fenceMargin {
		_, ok, err = s.write(ctx, at, write{
			put: tombstone(r.digest(), retrysafe.Owner{}, r.Fence, now), condition: sameVersion, values: r.seen(item{}),
		})
	} else {
		ok, err = s.delete(ctx, at, sameVersion, r.seen(item{}))
	}
	if ok && err == nil {
		err = s.removeAll(ctx, r)
	}
	return ok, err
}

// removeAll deletes the parts of a record that is no more.
func (s *Store) removeAll(ctx context.Context, r *record) error {
	for _, step := range r.steps {
		if err := s.remove(ctx, r.digest(), step.parts); err != nil {
			return err
		}
	}
	return s.remove(ctx, r.digest(), r.content)
}
