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

// services returns the names of the three services, in the order in which the shop asks them.
func services() []string { return []string{"stock", "bank", "mail"} }

// service makes one effect for each order: a reservation, a charge or a mail, which is a row of its table. Nothing but the
// guard keeps a second row of the same order out.
type service struct{ *place }

const effects = "CREATE TABLE IF NOT EXISTS effects (id TEXT NOT NULL, for_order TEXT NOT NULL, amount INTEGER NOT NULL)"

// newService guards the making of effects. Whatever fails has been rolled back, so a failed attempt gives its key up.
func newService(p *place) (http.Handler, error) {
	if _, err := p.db.Exec(effects); err != nil {
		return nil, err
	}
	s := &service{p}
	// The shop is the only caller.
	safe := httpsafe.Middleware(p.guard.With(policy()), httpsafe.ScopeNone(), httpsafe.Options{
		Required:  true,
		Ambiguous: retrysafe.AmbiguousRelease,
	})
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
		http.Error(w, "nothing was done; try again", http.StatusServiceUnavailable)
		return
	}
	faults.Boundary(s.name + "-committed")
}

// count tells how many effects an order has had: one, it should be.
func (s *service) count(w http.ResponseWriter, r *http.Request) {
	var n int
	err := s.db.QueryRowContext(r.Context(), "SELECT count(*) FROM effects WHERE for_order = ?", r.PathValue("order")).Scan(&n)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, n)
}
