package integration

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/dynamostore"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/mysqlstore"
	"github.com/retrysafe/retrysafe/stores/natsstore"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/shardstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// patience is how long calls of tests take at most: on a busy machine thousands wait for longer than in a real service.
const patience = 5 * time.Minute

// opener is a store for the tests that all stores pass.
type opener struct {
	// open returns an empty store, which is closed when the test ends. Calls in other tests must not disturb it.
	open func(t *testing.T) retrysafe.Store
	// slow says that a call takes milliseconds, beside many others or on a server that stands in for the real one. Tests
	// make fewer calls.
	slow bool
}

// stores returns all stores by name. A new store is added here, and then has its histories checked, and its storms,
// and is probed.
func stores() map[string]opener {
	return map[string]opener{
		"memstore":    {open: func(*testing.T) retrysafe.Store { return memstore.New(memstore.Options{}) }},
		"sqlitestore": {open: openSQLite},
		"pgstore":     {open: openNewPostgres},
		"mysqlstore":  {open: openMySQL},
		"redisstore":  {open: openRedis},
		"natsstore":   {open: openNATS, slow: true},
		"dynamostore": {open: openDynamo, slow: true},
		"shardstore":  {open: openShards},
	}
}

// fewer returns n, or a third of it for a slow store.
func (o opener) fewer(n int) int {
	if o.slow {
		return n / 3
	}
	return n
}

func openSQLite(t *testing.T) retrysafe.Store {
	t.Helper()
	s, err := sqlitestore.Open(filepath.Join(t.TempDir(), "keys.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func openNewPostgres(t *testing.T) retrysafe.Store {
	t.Helper()
	return openPostgres(t, shared.Get(t).Database(t))
}

func openMySQL(t *testing.T) retrysafe.Store {
	t.Helper()
	return openMySQLOn(t, openDB(t, "mysql", sharedMariaDB.Get(t).Database(t)))
}

// openMySQLOn migrates a database and returns a store on it.
func openMySQLOn(t *testing.T, db *sql.DB) retrysafe.Store {
	t.Helper()
	if _, err := mysqlstore.Migrate(t.Context(), db, mysqlstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := mysqlstore.New(t.Context(), db, mysqlstore.Options{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func openRedis(t *testing.T) retrysafe.Store {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{sharedRedis.Get(t).Address()}, DisableCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s, err := redisstore.New(t.Context(), client, redisstore.Options{Prefix: retrysafe.NewOwner().String() + ":"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openNATS(t *testing.T) retrysafe.Store {
	t.Helper()
	conn, err := nats.Connect(sharedNATS.Get(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	bucket := "test-" + retrysafe.NewOwner().String()
	if err := natsstore.CreateBucket(t.Context(), js, natsstore.BucketOptions{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	s, err := natsstore.New(t.Context(), js, natsstore.Options{Bucket: bucket, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openDynamo(t *testing.T) retrysafe.Store {
	t.Helper()
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(sharedDynamo.Get(t).URL()),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
		// On a busy machine the server closes hundreds of connections at once, and the budget for retries would be over.
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) { o.RateLimiter, o.MaxAttempts = ratelimit.None, 10 }),
	})
	table := "test-" + retrysafe.NewOwner().String()
	o := dynamostore.CreateTableOptions{Table: table, WithoutTimeToLive: true}
	if err := dynamostore.CreateTable(t.Context(), client, o); err != nil {
		t.Fatal(err)
	}
	s, err := dynamostore.New(t.Context(), client, dynamostore.Options{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openShards returns a store over three of different kinds.
func openShards(t *testing.T) retrysafe.Store {
	t.Helper()
	s, err := shardstore.New([]shardstore.Shard{
		{Name: "a", Store: memstore.New(memstore.Options{})},
		{Name: "b", Store: openSQLite(t)},
		{Name: "c", Store: openNewPostgres(t)},
	}, shardstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
