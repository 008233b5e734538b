package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
)

// service is an API with a database, behind the proxy. It makes a charge in a transaction of its own, and if the request
// brings a lease, it completes the key in the same transaction.
type service struct {
	pool *pgxpool.Pool
	ran  atomic.Int64
}

// ServeHTTP charges, and for /ran returns how often it did.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/ran" {
		fmt.Fprint(w, s.ran.Load())
		return
	}
	answer := pairResult().Body
	if err := transaction(r.Context(), s.pool, r.Header.Get("Retrysafe-Lease"), string(answer)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.ran.Add(1)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	w.Write(answer)
}

// serviceRole runs the service until stop is done.
func serviceRole(stop context.Context, text json.RawMessage, ready func(any) error) (any, error) {
	var url string
	if err := json.Unmarshal(text, &url); err != nil {
		return nil, err
	}
	var trips atomic.Int64
	pool, err := countingPool(stop, url, connections, &trips)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var address string
	end, err := listen(&address, &service{pool: pool})
	if err != nil {
		return nil, err
	}
	defer func() { _ = end() }()
	if err := ready(address); err != nil {
		return nil, err
	}
	<-stop.Done()
	return nil, nil
}
