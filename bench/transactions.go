package main

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/bench/peers"
)

// The transaction of goal 14: the row of a charge, and in the same transaction the completion of its key.
const (
	chargesTable = `CREATE TABLE charges (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL,
	amount bigint NOT NULL, note text NOT NULL)`
	insertCharge  = `INSERT INTO charges (customer, amount, note) VALUES ($1, $2, $3)`
	completeBySQL = `SELECT retrysafe.complete($1, $2, 201)`
	// chargeAndComplete is both in one statement.
	chargeAndComplete = `WITH charge AS (INSERT INTO charges (customer, amount, note) VALUES ($2, $3, $4) RETURNING id)
SELECT id, retrysafe.complete($1, $4, 201) FROM charge`
	// claimBySQL makes as many claims as it is asked for, with the lease that services have. With a longer one no
	// completion would leave the indexes alone. If it runs out, nothing here takes the key over.
	claimBySQL = `SELECT c.lease FROM generate_series(1, $2) n
CROSS JOIN LATERAL retrysafe.claim($1, 'k' || n, lease_for => '30 seconds') c`
)

// transaction runs the statements one after another. Without a lease it leaves the completion out.
func transaction(ctx context.Context, pool *pgxpool.Pool, lease, answer string) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing after the commit
	if _, err := tx.Exec(ctx, insertCharge, peers.Scope, 4200, answer); err != nil {
		return err
	}
	if lease != "" {
		if _, err := tx.Exec(ctx, completeBySQL, lease, answer); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// pipelinedTransaction sends all statements at once and reads their results afterwards.
func pipelinedTransaction(ctx context.Context, pool *pgxpool.Pool, lease, answer string) error {
	var b pgx.Batch
	b.Queue("BEGIN")
	b.Queue(insertCharge, peers.Scope, 4200, answer)
	if lease != "" {
		b.Queue(completeBySQL, lease, answer)
	}
	b.Queue("COMMIT")
	return pool.SendBatch(ctx, &b).Close()
}

// oneStatement charges and completes in one statement, which is a transaction of its own.
func oneStatement(ctx context.Context, pool *pgxpool.Pool, lease, answer string) error {
	tag, err := pool.Exec(ctx, chargeAndComplete, lease, peers.Scope, 4200, answer)
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("the statement has charged nothing")
	}
	return err
}

// atOnce is the side whose work and completion are one statement.
const atOnce = "one statement"

// completions compares transactions that complete a key with those that do not, and with single statements that do.
type completions struct {
	race
	URL                   string
	Callers, Transactions int // transactions a round
	Pipelined             bool
}

func (in completions) play(ctx context.Context, _ func(any) error) (any, error) {
	var trips atomic.Int64
	pool, err := countingPool(ctx, in.URL, in.Callers, &trips)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	claims, err := pgxpool.New(ctx, in.URL)
	if err != nil {
		return nil, err
	}
	defer claims.Close()
	run, singles := transaction, in.Callers
	if in.Pipelined {
		run, singles = pipelinedTransaction, 0
	}
	answer := string(peers.Result().Body)
	type work func(ctx context.Context, pool *pgxpool.Pool, lease, answer string) error
	each := func(ctx context.Context, callers int, leases []string, run work) (peers.Done, error) {
		n := int64(len(leases))
		began := time.Now()
		err := forEach(ctx, callers, 0, n, func(ctx context.Context, i int64) error {
			return run(ctx, pool, leases[i], answer)
		})
		return peers.Done{Count: n, PerSecond: float64(n) / time.Since(began).Seconds()}, err
	}
	without := func(ctx context.Context, callers int, _ time.Duration) (peers.Done, error) {
		return each(ctx, callers, make([]string, in.Transactions), run)
	}
	with := func(run work) peers.Peer {
		return func(ctx context.Context, callers int, _ time.Duration) (peers.Done, error) {
			leases, err := claimMany(ctx, claims, in.Transactions) // before the time is taken
			if err != nil {
				return peers.Done{}, err
			}
			return each(ctx, callers, leases, run)
		}
	}
	read := func(context.Context) (counters, error) { return counters{trips: trips.Load()}, nil }
	found, err := in.run(ctx, side{name: theirs, peer: without, callers: in.Callers, read: read},
		side{name: ours, peer: with(run), callers: in.Callers, read: read},
		side{name: atOnce, peer: with(oneStatement), callers: singles, read: read})
	return found, errors.Join(err, expectCompleted(ctx, claims))
}

// claimMany claims n fresh keys and returns their leases.
func claimMany(ctx context.Context, pool *pgxpool.Pool, n int) ([]string, error) {
	rows, err := pool.Query(ctx, claimBySQL, time.Now().String(), n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// expectCompleted returns an error if a key is still claimed: a side that skips its work cannot win.
func expectCompleted(ctx context.Context, pool *pgxpool.Pool) error {
	var left int
	err := pool.QueryRow(ctx, "SELECT count(*) FROM retrysafe.records WHERE state <> 'succeeded'").Scan(&left)
	if err == nil && left > 0 {
		err = errors.New("keys are claimed and not completed")
	}
	return err
}

// countingPool returns a pool of so many connections that counts its round trips.
func countingPool(ctx context.Context, url string, connections int, trips *atomic.Int64) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(connections)
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return &countingConn{Conn: c, trips: trips}, err
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// countingConn counts round trips: the first write after a read begins one.
type countingConn struct {
	net.Conn
	trips *atomic.Int64
	sent  atomic.Bool
}

// Read implements net.Conn.
func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.sent.Store(false)
	}
	return n, err
}

// Write implements net.Conn.
func (c *countingConn) Write(b []byte) (int, error) {
	if !c.sent.Swap(true) {
		c.trips.Add(1)
	}
	return c.Conn.Write(b)
}
