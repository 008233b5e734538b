package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/outbox/webhook"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// shop takes orders.
type shop struct {
	db    *sql.DB
	store *sqlitestore.Store
	guard *retrysafe.Guard
	box   *outbox.Outbox
	relay *outbox.Relay
}

// openDB opens a file. Transactions must be immediate and wait for each other, as sqlitestore.New requires.
func openDB(path, schema string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(schema)
	return db, err
}

func openShop(path, hooks string, secrets webhook.Secrets, o outbox.RelayOptions) (*shop, error) {
	db, err := openDB(path, "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, book TEXT NOT NULL)")
	if err != nil {
		return nil, err
	}
	store, err := sqlitestore.New(db, sqlitestore.Options{})
	if err != nil {
		return nil, err
	}
	box, err := outbox.New(db, outbox.SQLite, outbox.Options{})
	if err != nil {
		return nil, err
	}
	if _, err := box.Migrate(context.Background()); err != nil {
		return nil, err
	}
	// AllowHTTP and AllowPrivate are set only because the warehouse of this example runs on this machine.
	sink := webhook.NewSink(webhook.To(hooks, secrets), webhook.SinkOptions{AllowHTTP: true, AllowPrivate: true})
	return &shop{db, store, retrysafe.New(store, retrysafe.Options{}), box, outbox.NewRelay(box, sink, o)}, nil
}

func (s *shop) close() error {
	return errors.Join(s.guard.Shutdown(context.Background()), s.store.Close(), s.db.Close())
}

// handler guards orders. Failed work was rolled back.
func (s *shop) handler() http.Handler {
	orders := s.guard.With(retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()})
	safe := httpsafe.Middleware(orders, httpsafe.ScopeCredential(),
		httpsafe.Options{Required: true})
	mux := http.NewServeMux()
	mux.Handle("POST /orders", safe(http.HandlerFunc(s.order)))
	return mux
}

func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	var order struct{ Book string }
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Book == "" {
		http.Error(w, "name a book", http.StatusBadRequest)
		return
	}
	err := s.store.InTx(r.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return s.save(ctx, tx, w, order.Book)
	})
	if err != nil {
		w.Header().Set("Retry-After", "1") // nothing happened: the key is free again
		http.Error(w, "nothing was ordered; try again", http.StatusServiceUnavailable)
		return
	}
	s.relay.Wake() // after the commit
}

// save writes the order, the message about it, and the answer. All of them are committed, or none.
func (s *shop) save(ctx context.Context, tx *sql.Tx, w http.ResponseWriter, book string) error {
	saved, err := tx.ExecContext(ctx, "INSERT INTO orders (book) VALUES (?)", book)
	if err != nil {
		return err
	}
	id, err := saved.LastInsertId()
	if err != nil {
		return err
	}
	// The message needs no Key: it is derived from the key of the request, and stays the same if this attempt is
	// interrupted and another one follows.
	err = outbox.Save(ctx, s.box, tx, outbox.Message{
		Topic:     "order.placed",
		Aggregate: fmt.Sprintf("order %d", id),
		Body:      fmt.Appendf(nil, `{"type":"order.placed","data":{"order":%d,"book":%q}}`, id, book),
	})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "{\"order\":%d}\n", id)
	return nil
}
