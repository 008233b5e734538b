package dynamostore

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TableDefinition returns the table that a Store needs: two keys, both strings, no index, billed by request. The same
// is in the folder deploy/dynamodb, for CloudFormation and Terraform.
func TableDefinition(table string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:   &table,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(attrKey), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(attrPart), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(attrKey), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(attrPart), KeyType: types.KeyTypeRange},
		},
	}
}

// TimeToLiveDefinition returns the time to live of the table.
func TimeToLiveDefinition(table string) *dynamodb.UpdateTimeToLiveInput {
	return &dynamodb.UpdateTimeToLiveInput{
		TableName: &table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String(attrTTL), Enabled: aws.Bool(true),
		},
	}
}

// CreateTableOptions are the options of CreateTable. CreateTableOptions{} works.
type CreateTableOptions struct {
	// Table is the name of the table. Default DefaultTable.
	Table string
	// WithoutTimeToLive leaves the time to live off, for stand-ins of DynamoDB that do not have it. Then call Sweep.
	WithoutTimeToLive bool
	// Timeout is how long to wait until the table can be used. Default 5 minutes.
	Timeout time.Duration
}

// CreateTable creates the table of TableDefinition, waits until it can be used, and turns its time to live on. It is
// for tests, tools and first steps; in production the definitions in deploy/dynamodb are better kept with the others.
// It returns an error that wraps *types.ResourceInUseException if the table exists.
func CreateTable(ctx context.Context, client *dynamodb.Client, o CreateTableOptions) error {
	if o.Table == "" {
		o.Table = DefaultTable
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Minute
	}
	err := createTable(ctx, client, o)
	if err != nil {
		return fmt.Errorf("dynamostore: create table %q: %w", o.Table, err)
	}
	return nil
}

func createTable(ctx context.Context, client *dynamodb.Client, o CreateTableOptions) error {
	if _, err := client.CreateTable(ctx, TableDefinition(o.Table)); err != nil {
		return explain(err)
	}
	exists := dynamodb.NewTableExistsWaiter(client, func(w *dynamodb.TableExistsWaiterOptions) {
		w.MinDelay = 20 * time.Millisecond // in tests that is enough; each wait doubles
	})
	if err := exists.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &o.Table}, o.Timeout); err != nil {
		return err
	}
	if o.WithoutTimeToLive {
		return nil
	}
	_, err := client.UpdateTimeToLive(ctx, TimeToLiveDefinition(o.Table))
	return explain(err)
}
