package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// service books payments. The payments, the keys and the events that wait are in one file.
type service struct {
	db     *sql.DB
	store  *sqlitestore.Store
	guard  *retrysafe.Guard
	inbox  *inbox.Inbox
	failed atomic.Bool // the first event has failed
}

func open(path string, o inbox.Options) (*service, error) {
	// Transactions must be immediate and wait for each other, as sqlitestore.New requires.
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS payments (event TEXT NOT NULL, amount INTEGER NOT NULL)"); err != nil {
		return nil, err
	}
	store, err := sqlitestore.New(db, sqlitestore.Options{})
	if err != nil {
		return nil, err
	}
	box, err := outbox.New(db, outbox.SQLite, outbox.Options{Table: "inbox"})
	if err != nil {
		return nil, err
	}
	if _, err := box.Migrate(context.Background()); err != nil {
		return nil, err
	}
	return &service{db: db, store: store, guard: retrysafe.New(store, retrysafe.Options{}), inbox: inbox.New(box, "payments", o)}, nil
}

func (s *service) close() error {
	return errors.Join(s.guard.Shutdown(context.Background()), s.store.Close(), s.db.Close())
}

// once returns the handler with the inbox: it accepts the requests of senders, and runs those that are delivered.
func (s *service) once() http.Handler {
	// An attempt that has not completed its key has done nothing: see InTx.
	events := s.guard.With(retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()})
	return httpsafe.Middleware(events, httpsafe.ScopeNone(), httpsafe.Options{
		Inbox: s.inbox, KeySource: httpsafe.KeyInBody{Pointer: "/id"}, StatusPath: "/status",
	})(http.HandlerFunc(s.book))
}

// handler is for senders. A real one verifies their signatures before anything is saved.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /webhooks", s.once())
	mux.Handle("GET /status/{digest}", httpsafe.StatusHandler(s.guard, httpsafe.ScopeNone(), httpsafe.Options{
		Inbox: s.inbox, StatusPath: "/status",
	}))
	return mux
}

// deliver delivers events until ctx ends.
func (s *service) deliver(ctx context.Context) error {
	err := s.inbox.Run(ctx, s.once())
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// book saves the payment and the answer. Both are committed, or neither.
func (s *service) book(w http.ResponseWriter, r *http.Request) {
	var event struct {
		ID     string
		Amount int64
	}
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
		http.Error(w, "not an event", http.StatusBadRequest)
		return
	}
	err := s.store.InTx(r.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO payments (event, amount) VALUES (?, ?)", event.ID, event.Amount)
		if err != nil {
			return err
		}
		if !s.failed.Swap(true) {
			return errors.New("the first event fails, to show what happens then")
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
	if err != nil {
		http.Error(w, "nothing was booked", http.StatusInternalServerError)
	}
}
