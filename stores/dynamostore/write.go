package dynamostore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// The conditions of writes. An instant in a record is compared with the time there; DynamoDB's time to live decides
// nothing.
const (
	// noRecord holds for a new key, and for one that was released without steps if the fence grows.
	noRecord = "attribute_not_exists(pk) OR (st = :free AND fe < :fence)"
	// noItem holds for a new key.
	noItem = "attribute_not_exists(pk)"
	// sameVersion holds if nothing has written the record since it was read: fence and version change with each write.
	sameVersion = "fe = :seenfence AND ve = :seen"
	// underLease holds while the attempt has the key, whether or not its lease has run out, until Key has passed.
	underLease = "ow = :owner AND fe = :fence AND st = :pending AND ex > :now"
)

// write is a conditional write to one item.
type write struct {
	put       item   // replaces the item; nil: update changes it
	update    string // the expression of an UpdateItem
	condition string
	values    item // of both expressions
	// returns says that an UpdateItem returns the item as it was before.
	returns bool
}

// seen adds the values of sameVersion.
func (r *record) seen(values item) item {
	values[":seenfence"], values[":seen"] = number(r.Fence), number(r.version)
	return values
}

// held adds the values of underLease.
func held(l retrysafe.Lease, now storekit.Instant, values item) item {
	values[":owner"], values[":fence"] = bytesOf(l.Owner[:]), number(l.Fence)
	values[":pending"], values[":now"] = number(int64(retrysafe.Pending)), number(now)
	return values
}

// write writes the item if the condition holds. If it does not, ok is false, and found is what is there: nil if there
// is no item. A transaction that writes the same item is waited for.
func (s *Store) write(ctx context.Context, at item, w write) (found item, ok bool, err error) {
	for b := (backoff{}); ; {
		found, err = s.writeOnce(ctx, at, w)
		if err == nil {
			return found, true, nil
		}
		if found, failed := failedCondition(err); failed {
			if len(found) == 0 { // there is no item, or the server does not tell what there is
				found, err = s.get(ctx, at)
				return found, false, err
			}
			return found, false, nil
		}
		if !isTxConflict(err) {
			return nil, false, err
		}
		if err := b.wait(ctx); err != nil {
			return nil, false, err
		}
	}
}

func (s *Store) writeOnce(ctx context.Context, at item, w write) (item, error) {
	const tell = types.ReturnValuesOnConditionCheckFailureAllOld
	if w.put != nil {
		_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &s.table, Item: w.put, ConditionExpression: &w.condition, ExpressionAttributeValues: w.values,
			ReturnValuesOnConditionCheckFailure: tell,
		}, s.clock.measured)
		return nil, err
	}
	in := &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: at, UpdateExpression: &w.update, ConditionExpression: &w.condition,
		ExpressionAttributeValues: w.values, ReturnValuesOnConditionCheckFailure: tell,
	}
	if w.returns {
		in.ReturnValues = types.ReturnValueAllOld
	}
	out, err := s.client.UpdateItem(ctx, in, s.clock.measured)
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// delete deletes an item if the condition holds.
func (s *Store) delete(ctx context.Context, at item, condition string, values item) (ok bool, err error) {
	in := &dynamodb.DeleteItemInput{TableName: &s.table, Key: at}
	if condition != "" {
		in.ConditionExpression, in.ExpressionAttributeValues = &condition, values
	}
	_, err = s.client.DeleteItem(ctx, in, s.clock.measured)
	if _, failed := failedCondition(err); failed {
		return false, nil
	}
	return err == nil, err
}

// get reads an item as the last acknowledged write has left it; nil if there is none.
func (s *Store) get(ctx context.Context, at item) (item, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.table, Key: at, ConsistentRead: aws.Bool(true),
	}, s.clock.measured)
	if err != nil || len(out.Item) == 0 {
		return nil, err
	}
	return out.Item, nil
}

// maxTries is how often a call starts anew because its key has changed meanwhile.
const maxTries = 50

// backoff is what a call waits between its tries: nothing before the second one, then longer and longer times.
type backoff struct{ tries int }

// wait returns errContended after maxTries, and the context's error if that ends.
func (b *backoff) wait(ctx context.Context) error {
	b.tries++
	switch {
	case b.tries == 1:
		return ctx.Err()
	case b.tries >= maxTries:
		return errContended
	}
	longest := min(time.Millisecond<<min(b.tries, 10), 100*time.Millisecond)
	t := time.NewTimer(rand.N(longest))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
