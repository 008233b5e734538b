package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The transaction of goal 14: the row of a charge, and in the same transaction the completion of its key.
const (
	chargesTable = `CREATE TABLE charges (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL,
	amount bigint NOT NULL, note text NOT NULL)`
	insertCharge  = `INSERT INTO charges (customer, amount, note) VALUES ($1, $2, $3)`
	completeBySQL = `SELECT retrysafe.complete($1, $2, 201)`
	// claimBySQL makes as many claims as it is asked for, with a lease that outlasts the measurement.
	claimBySQL = `SELECT c.lease FROM generate_series(1, $2) n
CROSS JOIN LATERAL retrysafe.claim($1, 'k' || n, lease_for => '1 hour') c`
)

// transaction runs the statements one after another. Without a lease it leaves the completion out.
func transaction(ctx context.Context, pool *pgxpool.Pool, lease, answer string) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing after the commit
	if _, err := tx.Exec(ctx, insertCharge, pairScope, 4200, answer); err != nil {
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
	b.Queue(insertCharge, pairScope, 4200, answer)
	if lease != "" {
		b.Queue(completeBySQL, lease, answer)
	}
	b.Queue("COMMIT")
	return pool.SendBatch(ctx, &b).Close()
}

type completionsAsked struct {
	URL                           string
	Callers, Rounds, Transactions int // transactions a round
	Pipelined                     bool
}

type completionsFound struct{ With, Without completionsSide }

// completionsSide holds transactions per second, one value per round, and round trips per transaction.
type completionsSide struct {
	Rates []float64
	Trips float64
}

// completionsRole measures both sides in turn. The first round is a warm-up. The keys of a round are claimed before it.
func completionsRole(ctx context.Context, text json.RawMessage, _ func(any) error) (any, error) {
	var in completionsAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	var trips atomic.Int64
	pool, err := countingPool(ctx, in.URL, in.Callers, &trips)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	run := transaction
	if in.Pipelined {
		run = pipelinedTransaction
	}
	answer := string(pairResult().Body)
	var found completionsFound
	for i := range 1 + in.Rounds {
		if i == 1 {
			found = completionsFound{}
		}
		leases, err := claimMany(ctx, pool, in.Transactions)
		if err != nil {
			return nil, err
		}
		for _, side := range []struct {
			*completionsSide
			leases []string
		}{{&found.Without, make([]string, in.Transactions)}, {&found.With, leases}} {
			before := trips.Load()
			rate, err := eachOnce(in.Callers, side.leases, func(lease string) error { return run(ctx, pool, lease, answer) })
			if err != nil {
				return nil, err
			}
			side.Rates = append(side.Rates, rate)
			side.Trips = float64(trips.Load()-before) / float64(in.Transactions)
		}
	}
	return found, expectCompleted(ctx, pool)
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

// eachOnce runs f once for each value, by so many callers, and returns how many it ran per second.
func eachOnce(callers int, values []string, f func(string) error) (perSecond float64, err error) {
	var next atomic.Int64
	var first firstError
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(values) && !first.failed(); i = next.Add(1) - 1 {
				if err := f(values[i]); err != nil {
					first.set(err)
				}
			}
		})
	}
	all.Wait()
	return float64(len(values)) / time.Since(began).Seconds(), first.err
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
