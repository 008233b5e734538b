//go:build linux

package matrix

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/sqlfunctions"
	"github.com/retrysafe/retrysafe/stores/dynamostore"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/mysqlstore"
	"github.com/retrysafe/retrysafe/stores/natsstore"
	"github.com/retrysafe/retrysafe/stores/pgstore"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// place says where a worker finds its store, and where the ledgers are.
type place struct {
	Store   string
	URL     string // an address through which the harness can disturb the network
	Inbox   string // the database of the inbox, and its dialect before a space; "": none
	Ledgers string
	Wait    int    // replicas that a call of Redis waits for
	Planted string // what is broken in this store on purpose
}

// opened is a store, and how work writes a row in the transaction that completes the key; nil if it cannot.
type opened struct {
	store       retrysafe.Store
	transaction func(
		ctx context.Context, a *retrysafe.Attempt, f func(insert func() error) error, key, run string,
	) error
}

// names of what the harness makes before workers use it.
const (
	bucket = "matrix"
	table  = "matrix"
)

func (p place) open(ctx context.Context) (o opened, err error) {
	switch p.Store {
	case memory:
		o.store = memstore.New(memstore.Options{})
	case sqlite:
		o, err = openSQLite(p.URL)
	case postgres:
		o, err = openPostgres(ctx, p.URL)
	case sqlFunctions:
		o, err = openFunctions(p.URL)
	case mysql:
		o, err = openMySQL(ctx, p.URL)
	case redis:
		o.store, err = openRedis(ctx, p)
	case natsKV:
		o.store, err = openNATS(ctx, p.URL)
	case dynamo:
		o.store, err = dynamostore.New(ctx, dynamoClient(p.URL), dynamostore.Options{Table: table})
	default:
		err = fmt.Errorf("there is no store %q", p.Store)
	}
	if err == nil && p.Planted != "" {
		o.store = planted{o.store, p.Planted}
	}
	return o, err
}

// openPatiently repeats open, because the server may be down.
func (p place) openPatiently() (o opened, err error) {
	for late := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		o, err = p.open(ctx)
		cancel()
		if err == nil || time.Now().After(late) {
			return o, err
		}
	}
}

// insertRow is the work's own write. Nothing in the table prevents a second row.
const (
	createRows = "CREATE TABLE IF NOT EXISTS effects (k varchar(100), run varchar(100))"
	insertRow  = "INSERT INTO effects (k, run) VALUES ($1, $2)"
	readRows   = "SELECT run FROM effects WHERE k = $1"
)

// inMySQL is a statement with the placeholders of MySQL and SQLite.
func inMySQL(statement string) string {
	return strings.NewReplacer("$1", "?", "$2", "?").Replace(statement)
}

func openSQLite(path string) (o opened, err error) {
	s, err := sqlitestore.Open(path, sqlitestore.Options{})
	if err != nil {
		return o, err
	}
	o.store = s
	o.transaction = func(
		ctx context.Context, _ *retrysafe.Attempt, f func(insert func() error) error, key, run string,
	) error {
		return s.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			return f(func() error {
				_, err := tx.ExecContext(ctx, inMySQL(insertRow), key, run)
				return err
			})
		})
	}
	return o, nil
}

func openPostgres(ctx context.Context, url string) (o opened, err error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return o, err
	}
	s, err := pgstore.New(ctx, pool, pgstore.Options{})
	if err != nil {
		pool.Close()
		return o, err
	}
	o.store = s
	o.transaction = func(
		ctx context.Context, _ *retrysafe.Attempt, f func(insert func() error) error, key, run string,
	) error {
		return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return f(func() error {
				_, err := tx.Exec(ctx, insertRow, key, run)
				return err
			})
		})
	}
	return o, nil
}

// openFunctions returns a store that calls the SQL functions alone, as a service in another language does.
func openFunctions(url string) (o opened, err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return o, err
	}
	db.SetMaxOpenConns(8)
	const schema = "retrysafe"
	o.store = &sqlfunctions.Store{DB: db, Schema: schema, Records: true, Results: true}
	o.transaction = func(
		ctx context.Context, a *retrysafe.Attempt, f func(insert func() error) error, key, run string,
	) error {
		control := a.Control()
		control.CompletedElsewhere() // the record decides
		tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
		if err != nil {
			return retrysafe.Retryable(err)
		}
		exec := func(statement string, args ...any) error {
			_, err := tx.ExecContext(ctx, statement, args...)
			return err
		}
		err = exec("SELECT "+schema+".hold($1)", control.Lease().Token())
		if err == nil {
			err = f(func() error { return exec(insertRow, key, run) })
		}
		if err == nil {
			err = exec("SELECT "+schema+".complete($1, $2::bytea)", control.Lease().Token(), []byte(run))
		}
		if err == nil {
			err = tx.Commit()
		} else {
			err = errors.Join(err, tx.Rollback())
		}
		if err != nil {
			return retrysafe.Retryable(err) // a release is refused if the transaction was committed
		}
		return nil
	}
	return o, nil
}

func openMySQL(ctx context.Context, dsn string) (o opened, err error) {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return o, err
	}
	s, err := mysqlstore.New(ctx, db, mysqlstore.Options{})
	if err != nil {
		return o, errors.Join(err, db.Close())
	}
	o.store = s
	o.transaction = func(
		ctx context.Context, _ *retrysafe.Attempt, f func(insert func() error) error, key, run string,
	) error {
		return s.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
			return f(func() error {
				_, err := tx.ExecContext(ctx, inMySQL(insertRow), key, run)
				return err
			})
		})
	}
	return o, nil
}

func openRedis(ctx context.Context, p place) (retrysafe.Store, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{p.URL}, DisableCache: true, ForceSingleClient: true,
	})
	if err != nil {
		return nil, err
	}
	s, err := redisstore.New(ctx, client, redisstore.Options{WaitReplicas: p.Wait, WaitTimeout: lease / 8})
	if err != nil {
		client.Close()
	}
	return s, err
}

// natsConn connects to one server alone: others of a cluster are not in this network.
func natsConn(url string) (jetstream.JetStream, error) {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.IgnoreDiscoveredServers())
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
	}
	return js, err
}

func openNATS(ctx context.Context, url string) (retrysafe.Store, error) {
	js, err := natsConn(url)
	if err != nil {
		return nil, err
	}
	s, err := natsstore.New(ctx, js, natsstore.Options{Bucket: bucket})
	if err != nil {
		js.Conn().Close()
	}
	return s, err
}

func dynamoClient(url string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(url),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
}
