package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Defaults of Options.
const (
	DefaultTable   = "retrysafe"
	DefaultMaxSkew = 2 * time.Second
)

// Client has the methods of *dynamodb.Client that a Store calls.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options),
	) (*dynamodb.TransactWriteItemsOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options),
	) (*dynamodb.DescribeTableOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options),
	) (*dynamodb.DescribeTimeToLiveOutput, error)
}

var _ Client = (*dynamodb.Client)(nil)

// Options of a Store. Options{} works.
type Options struct {
	// Table is the name of the table. Default DefaultTable.
	Table string
	// MaxSkew is how far apart the clocks of two processes may be. A Store does not use the clock of its machine: it
	// takes the time from DynamoDB's answers, to which each process may be off by half of MaxSkew. If it cannot be that
	// exact, calls fail with ErrClockSkew. Each lease runs longer by MaxSkew, so that no process sees it end early.
	//
	// DynamoDB tells the time in whole seconds, so that one answer is exact to half a second plus half of the time
	// that the answer takes; the default allows for answers that take a second. At least one second; default
	// DefaultMaxSkew. All processes must use the same.
	MaxSkew time.Duration
}

func (o Options) withDefaults() Options {
	if o.Table == "" {
		o.Table = DefaultTable
	}
	if o.MaxSkew <= 0 {
		o.MaxSkew = DefaultMaxSkew
	}
	o.MaxSkew = max(o.MaxSkew, time.Second)
	return o
}

// Store implements retrysafe.Store, Sweeper, Inspector, Walker, Purger and RiskReporter. It is safe for concurrent use.
// It starts no goroutine, and needs no Close.
//
// It is not a Watcher, because DynamoDB cannot notify: requests that wait for another attempt poll.
type Store struct {
	client Client
	table  string
	skew   int64 // Options.MaxSkew in microseconds
	clock  *clock
	guess  storekit.Guess
}

var (
	_ retrysafe.Store        = (*Store)(nil)
	_ retrysafe.Sweeper      = (*Store)(nil)
	_ retrysafe.Inspector    = (*Store)(nil)
	_ retrysafe.Walker       = (*Store)(nil)
	_ retrysafe.Purger       = (*Store)(nil)
	_ retrysafe.Reopener     = (*Store)(nil)
	_ retrysafe.FullScanner  = (*Store)(nil)
	_ retrysafe.Sizer        = (*Store)(nil)
	_ retrysafe.RiskReporter = (*Store)(nil)
)

// New returns a Store on a table that exists: see [CreateTable], and the definitions in the folder deploy/dynamodb. The
// caller closes what the client needs to have closed; nothing of the Store needs to be.
//
// New reads the description of the table. It returns an error if there is no such table, if its primary key is another
// one, or if DynamoDB does not tell the time exactly enough ([ErrClockSkew]). What may endanger records is not an
// error: see Risks.
func New(ctx context.Context, client Client, o Options) (*Store, error) {
	return open(ctx, client, o, newClock(o.withDefaults().MaxSkew/2, machineTime()))
}

// open returns a Store with a clock that others may share.
func open(ctx context.Context, client Client, o Options, c *clock) (*Store, error) {
	o = o.withDefaults()
	s := &Store{client: client, table: o.Table, skew: storekit.Micros(o.MaxSkew), clock: c}
	table, err := s.describe(ctx)
	if err == nil {
		err = checkSchema(table)
	}
	if err == nil {
		_, err = s.serverTime(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("dynamostore: open table %q: %w", s.table, explain(err))
	}
	return s, nil
}

func (s *Store) describe(ctx context.Context) (*types.TableDescription, error) {
	out, err := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table}, s.clock.measured)
	if err != nil {
		return nil, err
	}
	return out.Table, nil
}

func checkSchema(table *types.TableDescription) error {
	var keys []string
	for _, k := range table.KeySchema {
		keys = append(keys, aws.ToString(k.AttributeName)+" "+string(k.KeyType))
	}
	if len(keys) != 2 || keys[0] != attrKey+" HASH" || keys[1] != attrPart+" RANGE" {
		return fmt.Errorf("its primary key is %v, want [%s HASH %s RANGE], both strings: name a table that was made "+
			"with CreateTable or the definitions in deploy/dynamodb", keys, attrKey, attrPart)
	}
	return nil
}

// serverTime returns DynamoDB's time.
func (s *Store) serverTime(ctx context.Context) (storekit.Instant, error) {
	return s.clock.now(ctx, s.askTime)
}

// askTime asks for an item that is not there, so that the answer tells the time.
func (s *Store) askTime(ctx context.Context) error {
	_, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.table, Key: itemKey("time", "time"),
	}, s.clock.measured)
	return err
}

// call finishes the error of a call.
func call(ctx context.Context, verb string, k fmt.Stringer, err error) error {
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return fmt.Errorf("%s %s: %w", verb, k, explain(err))
}
