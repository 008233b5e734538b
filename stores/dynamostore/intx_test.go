package dynamostore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// row is a write of the work to the table storetest_rows of a store's test.
func row(table string) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &table, Item: itemKey("row", retrysafe.NewOwner().String()), ConditionExpression: aws.String(noItem),
	}}
}

// inTx is InTx for functions that write rows by a word that looks like SQL.
func inTx(s *Store, rows string) func(context.Context, func(context.Context, func(string) error) error) error {
	return func(ctx context.Context, f func(context.Context, func(string) error) error) error {
		return s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
			return f(ctx, func(text string) error {
				switch {
				case !strings.HasPrefix(text, "INSERT"):
					return errors.ErrUnsupported
				case strings.Contains(text, "storetest_missing"):
					return errors.New("there is no such table")
				}
				tx.Add(row(rows))
				return nil
			})
		})
	}
}

// Transactions are made by the proxy: it has not met AWS. Seen to fail with the completion left out of the items, with
// its condition comparing neither owner nor fence, with the steps left out of the completion, and with Commit doing
// nothing.
func TestInTxContract(t *testing.T) {
	t.Parallel()
	storetest.RunInTx(t, storetest.TxHarness{Open: func(t *testing.T) storetest.TxStore {
		p := startProxy(t)
		client := connect(p.server.URL)
		s, rows := openOn(t, client, newTable(t, client)), newTable(t, client)
		return storetest.TxStore{
			Store: s, InTx: inTx(s, rows), LoseEnd: p.loseEnd, TooLarge: MaxBytes + 1,
			Rows: func(t *testing.T) int { return len(allItems(t, &Store{client: client, table: rows})) },
		}
	}})
}

// loseEnd is what a storetest.TxStore needs.
func (p *proxy) loseEnd(_ *testing.T, carriedOut bool) (heal func()) {
	var ended, healed atomic.Bool
	p.fault = func(operation string, _ int64) fault {
		switch {
		case healed.Load():
			return none
		case operation == "TransactWriteItems" && ended.CompareAndSwap(false, true):
			return map[bool]fault{true: answerLost, false: lost}[carriedOut]
		case ended.Load():
			return denied
		}
		return none
	}
	return func() { healed.Store(true) }
}
