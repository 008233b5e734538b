package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	_ "modernc.org/sqlite" // the driver

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// till charges for orders, in the same database file that keeps the keys.
type till struct {
	db       *sql.DB
	store    *sqlitestore.Store
	guard    *retrysafe.Guard
	consumer *queuesafe.Consumer
}

func openTill(path string, observer queuesafe.Observer) (*till, error) {
	// Transactions must be immediate and wait for each other, as sqlitestore.New requires.
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	_, err = db.Exec("CREATE TABLE IF NOT EXISTS charges (order_id TEXT NOT NULL, cents INTEGER NOT NULL)")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	store, err := sqlitestore.New(db, sqlitestore.Options{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	t := &till{db: db, store: store}
	// Everything in charge happens in one transaction, so an attempt that failed or was interrupted has done nothing.
	t.guard = retrysafe.New(store, retrysafe.Options{Policy: retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()}})
	t.consumer = queuesafe.New(t.guard, "till", queuesafe.Options{
		Key:      queuesafe.KeyByField("/order"), // the same key if a producer sends an order twice
		Observer: observer,
	})
	return t, nil
}

// charge is the message handler. A malformed order can never succeed and becomes a dead letter. An order that could
// not be saved may be retried, because nothing was written.
func (t *till) charge(ctx context.Context, m queuesafe.Message) error {
	var order struct {
		Order string
		Cents int64
	}
	if err := json.Unmarshal(m.Body, &order); err != nil || order.Cents <= 0 {
		return retrysafe.Terminal(errors.New("the order has no price"))
	}
	return t.store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO charges (order_id, cents) VALUES (?, ?)", order.Order, order.Cents)
		return err
	})
}

// charges returns the number of charged orders and the number of charges.
func (t *till) charges(ctx context.Context) (orders, charges int, err error) {
	err = t.db.QueryRowContext(ctx, "SELECT count(DISTINCT order_id), count(*) FROM charges").Scan(&orders, &charges)
	return orders, charges, err
}

// close waits until all results are saved, and closes the file.
func (t *till) close(ctx context.Context) error {
	return errors.Join(t.guard.Shutdown(ctx), t.store.Close(), t.db.Close())
}
