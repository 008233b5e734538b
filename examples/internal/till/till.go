// Package till is the handler of the queue examples: it charges for orders, in the same file that keeps the keys.
package till

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // the driver

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// Till charges for orders.
type Till struct {
	db       *sql.DB
	store    *sqlitestore.Store
	guard    *retrysafe.Guard
	Consumer *queuesafe.Consumer
}

// Open opens a till with a database file.
func Open(path string) (*Till, error) {
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
	t := &Till{db: db, store: store}
	// Everything in Charge happens in one transaction, so an attempt that failed or was interrupted has done nothing.
	t.guard = retrysafe.New(store, retrysafe.Options{Policy: retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()}})
	t.Consumer = queuesafe.New(t.guard, "till", queuesafe.Options{
		Key:      queuesafe.KeyByField("/order"), // the same key if a producer sends an order twice
		Observer: queuesafe.ObserverFunc(report),
	})
	return t, nil
}

// Charge is the message handler. A malformed order can never succeed and becomes a dead letter. An order that could
// not be saved may be retried, because nothing was written.
func (t *Till) Charge(ctx context.Context, m queuesafe.Message) error {
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

// Charges returns the number of charged orders and the number of charges.
func (t *Till) Charges(ctx context.Context) (orders, charges int, err error) {
	err = t.db.QueryRowContext(ctx, "SELECT count(DISTINCT order_id), count(*) FROM charges").Scan(&orders, &charges)
	return orders, charges, err
}

// Close waits until all results are saved, and closes the file.
func (t *Till) Close(ctx context.Context) error {
	return errors.Join(t.guard.Shutdown(ctx), t.store.Close(), t.db.Close())
}

func report(_ context.Context, e queuesafe.Event) {
	if e.Kind == queuesafe.Handled {
		fmt.Printf("delivery %d of key %v: %v, %v\n", e.Delivery, e.Key, e.Disposition.Situation, e.Disposition.Action)
		return
	}
	fmt.Println(e.Source, e.Kind, e.Err)
}
