package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/outbox/webhook"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// warehouse packs a parcel for each order of which it is notified.
type warehouse struct {
	db      *sql.DB
	store   *sqlitestore.Store
	guard   *retrysafe.Guard
	secrets webhook.Secrets
}

func openWarehouse(path string, secrets webhook.Secrets) (*warehouse, error) {
	db, err := openDB(path, "CREATE TABLE IF NOT EXISTS parcels (book TEXT NOT NULL)")
	if err != nil {
		return nil, err
	}
	store, err := sqlitestore.New(db, sqlitestore.Options{})
	if err != nil {
		return nil, err
	}
	return &warehouse{db, store, retrysafe.New(store, retrysafe.Options{}), secrets}, nil
}

func (h *warehouse) close() error {
	return errors.Join(h.guard.Shutdown(context.Background()), h.store.Close(), h.db.Close())
}

// handler accepts signed webhooks. A repeated webhook gets the same answer and packs no second parcel.
func (h *warehouse) handler() http.Handler {
	verify := webhook.Verify(h.secrets, webhook.VerifyOptions{})
	hooks := h.guard.With(retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()})
	once := httpsafe.Middleware(hooks, httpsafe.ScopeNone(), httpsafe.Options{
		Profile: httpsafe.IETF().WithHeader(webhook.HeaderID), Required: true,
	})
	mux := http.NewServeMux()
	mux.Handle("POST /hooks", verify(once(http.HandlerFunc(h.pack))))
	return mux
}

func (h *warehouse) pack(w http.ResponseWriter, r *http.Request) {
	var event struct{ Data struct{ Book string } }
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
		http.Error(w, "not an order", http.StatusBadRequest)
		return
	}
	err := h.store.InTx(r.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO parcels (book) VALUES (?)", event.Data.Book)
		w.WriteHeader(http.StatusNoContent)
		return err
	})
	if err != nil {
		w.Header().Set("Retry-After", "1") // nothing happened: the key is free again
		http.Error(w, "not now", http.StatusServiceUnavailable)
	}
}
