package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/dynamostore"
)

var (
	ctx     = context.Background()
	client  *dynamodb.Client // dynamodb.NewFromConfig(config)
	store   *dynamostore.Store
	charges = "charges"
)

func Example() {
	store, err := dynamostore.New(ctx, client, dynamostore.Options{Table: "retrysafe"})
	if err != nil {
		log.Fatal(err)
	}
	risks, err := store.Risks(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range risks {
		log.Print(r)
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	defer guard.Shutdown(ctx)
}

func ExampleCreateTable() {
	err := dynamostore.CreateTable(ctx, client, dynamostore.CreateTableOptions{Table: "retrysafe"})
	if exists := new(types.ResourceInUseException); errors.As(err, &exists) {
		err = nil
	}
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleTableDefinition() {
	definition := dynamostore.TableDefinition("retrysafe")
	definition.DeletionProtectionEnabled = aws.Bool(true)
	if _, err := client.CreateTable(ctx, definition); err != nil {
		log.Fatal(err)
	}
}

func ExampleTimeToLiveDefinition() {
	if _, err := client.UpdateTimeToLive(ctx, dynamostore.TimeToLiveDefinition("retrysafe")); err != nil {
		log.Fatal(err)
	}
}

// The charge and the completion are written together, or neither is.
func ExampleStore_InTx() {
	work := func(ctx context.Context, a *retrysafe.Attempt) (string, error) {
		id := a.ChildKey("charge")
		if err := retrysafe.SetResult(ctx, id); err != nil {
			return "", err
		}
		return id, store.InTx(ctx, func(_ context.Context, tx *dynamostore.Tx) error {
			tx.Add(types.TransactWriteItem{Put: &types.Put{
				TableName: &charges,
				Item: map[string]types.AttributeValue{
					"id":    &types.AttributeValueMemberS{Value: id},
					"cents": &types.AttributeValueMemberN{Value: "4200"},
				},
				ConditionExpression: aws.String("attribute_not_exists(id)"),
			}})
			return nil
		})
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	id, err := retrysafe.Do(ctx, guard, retrysafe.Request{Key: retrysafe.Key{Scope: "acme", ID: "order-17"}}, work)
	fmt.Println(id, err)
}

// TxError says which of the work's items DynamoDB has refused.
func ExampleTxError() {
	err := store.InTx(ctx, func(_ context.Context, tx *dynamostore.Tx) error {
		tx.Add(types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &charges, Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "42"}},
			ConditionExpression: aws.String("attribute_exists(id)"),
		}})
		return nil
	})
	if refused := new(dynamostore.TxError); errors.As(err, &refused) {
		for i, r := range refused.Reasons {
			fmt.Println(i, aws.ToString(r.Code))
		}
	}
}
