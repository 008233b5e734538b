package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"net/http"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/internal/faults"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// services returns the names of the three services, in the order in which the shop calls them.
func services() []string { return []string{"stock", "bank", "mail"} }

// service makes one effect for each order: a reservation, a charge or a mail, stored as a row of its table. Only the
// guard prevents a second row for the same order.
type service struct{ *server }

const effects = "CREATE TABLE IF NOT EXISTS effects (id TEXT NOT NULL, for_order TEXT NOT NULL, amount INTEGER NOT " +
	"NULL)"

// newService returns the guarded handler of a service. All that it does is in the transaction that completes the key,
// so an attempt that has failed, or was ended by a crash, has done nothing (RerunTx).
func newService(p *server) (http.Handler, error) {
	if _, err := p.db.Exec(effects); err != nil {
		return nil, err
	}
	s := &service{p}
	// The shop is the only caller.
	guarded := p.guard.With(policy()).With(retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()})
	safe := httpsafe.Middleware(guarded, httpsafe.ScopeNone(), httpsafe.Options{Required: true})
	mux := http.NewServeMux()
	mux.Handle("POST /effects", safe(http.HandlerFunc(s.make)))
	mux.HandleFunc("GET /effects/{order}", s.count)
	return mux, nil
}

// make saves the effect, and the answer under the request's key, in one transaction.
func (s *service) make(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	err := s.store.InTx(r.Context(), func(ctx context.Context, tx *sql.Tx) error {
		id := rand.Text()
		if _, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?, ?, ?)", id, o.Order, o.Amount); err != nil {
			return err
		}
		faults.Boundary(s.name + "-written")
		created(w, map[string]string{"id": id})
		return nil
	})
	if err != nil {
		log.Printf("%s: rolled back: %v", s.name, err)
		w.Header().Set("Retry-After", "1") // nothing happened: the key is free again
		http.Error(w, "nothing was done; try again", http.StatusServiceUnavailable)
		return
	}
	faults.Boundary(s.name + "-committed")
}

// count returns the number of effects of an order, which should be 1.
func (s *service) count(w http.ResponseWriter, r *http.Request) {
	var n int
	err := s.db.QueryRowContext(r.Context(), "SELECT count(*) FROM effects WHERE for_order = ?",
		r.PathValue("order")).Scan(&n)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, n)
}
