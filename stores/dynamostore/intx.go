package dynamostore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// maxTxItems is how many items the work may add to a Tx: DynamoDB takes 100, and the completion is one.
const maxTxItems = 99

// Tx collects the writes that InTx makes together with the completion. It is for one goroutine.
type Tx struct{ items []types.TransactWriteItem }

// Add adds writes and condition checks, of any tables of the account and region. Nothing is written before the function
// given to InTx returns; reads inside of it do not see these writes.
func (tx *Tx) Add(items ...types.TransactWriteItem) { tx.items = append(tx.items, items...) }

// InTx runs f, and writes what f has added to tx together with the completion of the attempt that ctx belongs to and
// the results of steps that f has run, as one TransactWriteItems: all of it is written, or nothing is. So after a crash
// the work can be run again.
//
//	err := store.InTx(ctx, func(ctx context.Context, tx *dynamostore.Tx) error {
//		tx.Add(types.TransactWriteItem{Put: &types.Put{TableName: &charges, Item: charge}})
//		return nil
//	})
//
// The attempt's result must be known when f returns: a handler has written its response by then, other work has
// called [retrysafe.SetResult]. What a handler writes of its response after InTx is an error, because the response is
// saved already. f does not hold anything while it runs. A result of more than 32 KB is written before the transaction,
// which then makes it visible.
//
// An attempt has one InTx: a second one, inside of it or after it, is refused before its f is called. After a rollback
// InTx may be called again. Steps inside run with the context that f is given; others are refused meanwhile.
//
// Errors:
//
//   - what f returned: nothing is written, and what f has written of an HTTP response is forgotten
//   - *TxError, if DynamoDB refused one of f's items, for example because its condition did not hold
//   - [retrysafe.ErrLeaseLost], if another attempt has taken the key over, or this one has completed
//   - [retrysafe.ErrNoAttempt] outside of an attempt; an error if f added more than 99 items: DynamoDB takes 100, and
//     the completion is one
//   - an error marked [retrysafe.Unknown], if an answer was lost and the record does not say that the transaction was
//     made, whatever DynamoDB answered to the requests that followed. It may have been made, or may be yet, and the key
//     is abandoned unless it turns out that the work is completed.
//
// After all of them but the last nothing was written. The transaction has a ClientRequestToken, so that repeating it
// after a lost answer does not write twice. Transactions that write the same items at once, or for which the capacity
// is used up, are tried again for some seconds. InTx repeats requests itself, and does not use the client's Retryer. An
// attempt without protection, because the store failed when it began and the policy was FailOpen, writes what f added
// and completes nothing.
func (s *Store) InTx(ctx context.Context, f func(ctx context.Context, tx *Tx) error) error {
	return storekit.InTx(ctx, s, func(ctx context.Context, _ *retrysafe.Attempt) (*sharedTx, error) {
		return &sharedTx{store: s, end: context.WithoutCancel(ctx)}, nil
	}, func(ctx context.Context, t *sharedTx) error { return f(ctx, &t.tx) })
}

// TxError is returned by InTx if DynamoDB has refused the transaction because of items that the work has added. Nothing
// was written.
type TxError struct {
	// Reasons has an entry for each item that was added, in their order; its Code is "None" for those that are not the
	// cause.
	Reasons []types.CancellationReason
	cause   error
}

// Error names the items that were refused, by their position counted from 0.
func (e *TxError) Error() string {
	var why []string
	for i, r := range e.Reasons {
		if code := aws.ToString(r.Code); code != "" && code != "None" {
			why = append(why, fmt.Sprintf("item %d: %s: %s", i, code, aws.ToString(r.Message)))
		}
	}
	return "the transaction was canceled, and nothing was written: " + strings.Join(why, "; ")
}

// Unwrap returns the *types.TransactionCanceledException.
func (e *TxError) Unwrap() error { return e.cause }

// endTime is how long the end of a transaction may take, whatever has become of the caller. Tests make it longer.
var endTime = 10 * time.Second

// sharedTx implements storekit.Tx.
type sharedTx struct {
	store *Store
	tx    Tx
	end   context.Context // what ends the transaction runs with it, whatever has become of the caller
	// lost is the first error of a request that has got no answer. A transaction that it asked for may have been made, or
	// may be made later, so that nothing which is answered to another request is the last word.
	lost error
}

// Intact implements storekit.Tx. Nothing has been written yet, so that nothing can have been committed.
func (t *sharedTx) Intact() error {
	if n := len(t.tx.items); n > maxTxItems {
		return fmt.Errorf("dynamostore: %d items were added inside InTx, the limit is %d", n, maxTxItems)
	}
	return nil
}

// Rollback implements storekit.Tx. Nothing is written before the end.
func (t *sharedTx) Rollback() {}

// Commit implements storekit.Tx.
func (t *sharedTx) Commit() error {
	if len(t.tx.items) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(t.end, endTime)
	defer cancel()
	for b := (backoff{}); ; {
		reasons, err := t.send(ctx, newToken(), t.tx.items)
		if t.lost != nil || !conflicted(reasons) || b.wait(ctx) != nil {
			return t.settle(nil, t.explain(reasons, err))
		}
	}
}

// Complete implements storekit.Tx.
func (t *sharedTx) Complete(
	l retrysafe.Lease, steps []retrysafe.StepResult, r retrysafe.Result, keep retrysafe.Retention,
) error {
	ctx, cancel := context.WithTimeout(t.end, endTime)
	defer cancel()
	c := &completion{store: t.store, lease: l, result: r, keep: t.store.padded(keep)}
	for _, step := range steps {
		c.steps = append(c.steps, savedStep{StepResult: step})
	}
	for b := (backoff{}); ; {
		again, err := t.complete(ctx, c)
		if !again || b.wait(ctx) != nil {
			return t.settle(c, err)
		}
	}
}

// settle returns what has become of a transaction whose last request ended with err. If the answer to a request before
// it was lost, only the record can tell: err is definite for its own request alone. c is nil if there is no record.
func (t *sharedTx) settle(c *completion, err error) error {
	if err == nil || t.lost == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.end, endTime)
	defer cancel()
	if c != nil {
		found, readErr := t.store.get(ctx, recordKey(c.lease))
		if readErr == nil && c.madeIn(found) {
			return nil
		}
	}
	return retrysafe.Unknown(fmt.Errorf("an answer to the transaction was lost, and it may have been made: %w; the last "+
		"answer was: %v", t.lost, err))
}

// complete tries to make the transaction. again says that it was canceled for a reason that may be gone.
func (t *sharedTx) complete(ctx context.Context, c *completion) (again bool, err error) {
	s := t.store
	now, err := s.serverTime(ctx)
	if err == nil {
		err = c.split(ctx, now)
	}
	if err == nil {
		err = c.splitSteps(ctx, now)
	}
	if err != nil {
		return false, explain(err)
	}
	c.tokens = append(c.tokens, newToken())
	w := c.write(now)
	items := append(slices.Clone(t.tx.items), types.TransactWriteItem{Update: &types.Update{
		TableName: &s.table, Key: recordKey(c.lease), UpdateExpression: &w.update, ConditionExpression: &w.condition,
		ExpressionAttributeValues:           w.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}})
	reasons, err := t.send(ctx, c.token(), items)
	if err == nil {
		c.steps = nil // they are saved
		_ = s.recount(ctx, c.lease, now, c.write)
		return false, nil
	}
	if len(reasons) < len(items) {
		return false, t.explain(nil, err)
	}
	ours := reasons[len(items)-1]
	switch {
	case aws.ToString(ours.Code) == "ConditionalCheckFailed":
		return t.refused(ctx, c, ours.Item, now)
	case aws.ToString(ours.Code) == "ValidationError" && strings.Contains(aws.ToString(ours.Message), "allowed size"):
		if c.content == nil {
			c.large = true
			return true, fmt.Errorf("%w: %w", retrysafe.ErrResultTooLarge, err)
		}
		return false, tooManySteps(err)
	}
	return conflicted(reasons), t.explain(reasons, err)
}

// splitSteps saves large steps in parts.
func (c *completion) splitSteps(ctx context.Context, now storekit.Instant) (err error) {
	for i, step := range c.steps {
		if step.parts != nil || len(step.Data) <= maxInlineStep {
			continue
		}
		c.steps[i].parts, err = c.store.save(ctx, c.digest(), c.lease.Fence, step.Data, c.until(now))
		if err != nil {
			return err
		}
	}
	return nil
}

// refused handles a transaction that was canceled because of the record.
func (t *sharedTx) refused(ctx context.Context, c *completion, found item, now storekit.Instant) (bool, error) {
	if len(found) == 0 {
		var err error
		if found, err = t.store.get(ctx, recordKey(c.lease)); err != nil {
			return false, explain(err)
		}
	}
	r, err := live(found, now)
	switch {
	case err != nil:
		return false, err
	case c.madeIn(found):
		return false, nil
	case r == nil || !r.PendingUnder(c.lease):
		return false, retrysafe.ErrLeaseLost
	}
	// The attempt still has the key: a step of this name has been saved by other means. The first result stays.
	kept := slices.DeleteFunc(slices.Clone(c.steps), func(s savedStep) bool { return r.hasStep(s.Name) })
	again := len(kept) < len(c.steps)
	c.steps = kept
	return again, retrysafe.ErrLeaseLost
}

// explain is what the work is told of an error.
func (t *sharedTx) explain(reasons []types.CancellationReason, err error) error {
	if len(reasons) >= len(t.tx.items) && len(reasons) > 0 {
		return &TxError{Reasons: reasons[:len(t.tx.items)], cause: err}
	}
	return explain(err)
}

// maxLost is how often a transaction is asked for whose answers are lost.
const maxLost = 5

// send makes a transaction. If DynamoDB has canceled it, reasons says why. It sets t.lost if a request gets no answer.
func (t *sharedTx) send(ctx context.Context, token string, items []types.TransactWriteItem,
) (reasons []types.CancellationReason, err error) {
	for b := (backoff{}); ; {
		_, err = t.store.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			TransactItems: items, ClientRequestToken: &token,
		}, t.store.clock.measured, oneRequest)
		var canceled *types.TransactionCanceledException
		switch {
		case err == nil:
			return nil, nil
		case errors.As(err, &canceled):
			return canceled.CancellationReasons, err
		case isThrottled(err):
		case isRefused(err):
			return nil, err
		default:
			if t.lost == nil {
				t.lost = err
			}
			if b.tries >= maxLost {
				return nil, err
			}
		}
		// The same token and the same items: DynamoDB makes the transaction once.
		if b.wait(ctx) != nil {
			return nil, err
		}
	}
}

// oneRequest makes a call send one request, so that each lost answer is seen here: the client's Retryer would hide one
// behind the answer to its next request.
func oneRequest(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// conflicted reports whether a transaction was canceled only because others wrote the same items, or because there were
// too many.
func conflicted(reasons []types.CancellationReason) bool {
	found := false
	for _, r := range reasons {
		switch aws.ToString(r.Code) {
		case "None", "":
		case "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded":
			found = true
		default:
			return false
		}
	}
	return found
}

// newToken returns a ClientRequestToken.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never returns an error
	return hex.EncodeToString(b[:])
}
