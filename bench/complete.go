package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
	real "github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Goal 14: what it costs that a service completes its key inside its own transaction. A transaction with complete
// beside the same transaction without it, and beside one statement that does both; and a proxied route whose service
// completes beside an ordinary proxied route.

// completeSchema is the schema of the keys of goal 14, and of the table of the service.
const completeSchema = "retrysafe"

func completeGoal(ctx context.Context, r *run) (err error) {
	r.progress("start PostgreSQL")
	s, err := startPostgres(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	store, err := s.store(ctx, completeSchema)
	if err != nil {
		return err
	}
	if err := s.exec(ctx, chargesTable); err != nil {
		return err
	}
	for _, pipelined := range []bool{false, true} {
		if err := compareTransactions(ctx, r, store, pipelined); err != nil {
			return err
		}
	}
	if r.profiled != 0 {
		return nil
	}
	return errors.Join(compareRoutes(ctx, r, s), compareClaims(ctx, r, s, store))
}

// compareTransactions compares statement by statement, or with all statements in one message.
func compareTransactions(ctx context.Context, r *run, store pgPlace, pipelined bool) error {
	how, most := "one by one", 1.0
	if pipelined {
		how, most = "pipelined", 0
	}
	for _, c := range []struct {
		callers, transactions int
		function, statement   float64 // the least that they are to be, of transactions without complete
	}{{1, 2000, 0.62, 1}, {16, 6000, 0.60, 0.85}, {64, 10_000, 0.46, 0.68}} {
		if r.Quick {
			c.transactions /= 10
		}
		r.progress("transactions with and without complete, %s, %s", how, callersText(c.callers))
		got, err := call[results](ctx, r.here(), completions{
			race: r.race(5, 3, 0), URL: store.URL, Callers: c.callers, Transactions: c.transactions,
			Pipelined: pipelined,
		})
		if err != nil {
			return err
		}
		if with, without := got[ours].Trips.Median(), got[theirs].Trips.Median(); c.callers == 1 {
			r.add(ctx, figure.New("round trips that complete adds, "+how, "", with-without).Want(figure.AtMost(most)).
				Note("%s with complete, %s without", figure.Short(with), figure.Short(without)))
		}
		rates := got.rates(fmt.Sprintf("complete ÷ without, %s, %s", how, callersText(c.callers)), "transactions/s")
		if pipelined {
			r.addHere(ctx, rates)
			continue
		}
		r.addHere(ctx, rates.Want(figure.AtLeast(c.function)))
		r.addHere(ctx, figure.Ratio("complete in one statement ÷ without, "+callersText(c.callers), got[atOnce].Rate, got[theirs].Rate,
			"transactions/s").Want(figure.AtLeast(c.statement)))
	}
	return nil
}

// completedRoutes is the configuration of the proxy. The service completes the keys of the second route, and those of the
// third in the statement that charges.
const completedRoutes = `routes:
  POST /payments: {}
  POST /completed: {complete: upstream}
  POST /statement: {complete: upstream}
`

// compareRoutes compares a route whose service completes with an ordinary one, both of one proxy in front of one
// service.
func compareRoutes(ctx context.Context, r *run, pg *pgServer) (err error) {
	command, err := real.Retrysafe()
	if err != nil {
		return err
	}
	config := filepath.Join(r.dir, "routes.yaml")
	if err := os.WriteFile(config, []byte(completedRoutes), 0o600); err != nil {
		return err
	}
	var s servers
	defer func() { err = errors.Join(err, s.end()) }()
	behind, err := startServer[server](ctx, &s, place{}, service{URL: pg.url()})
	if err != nil {
		return err
	}
	proxy, err := startServer[server](ctx, &s, place{}, binary{
		Binary: command, Upstream: behind.Addr, Store: pg.url(), Config: config, Log: filepath.Join(r.dir, "proxy.log"),
	})
	if err != nil {
		return err
	}
	completed, ordinary, single := requestsTo(proxy, behind.Addr), requestsTo(proxy, behind.Addr), requestsTo(proxy, behind.Addr)
	completed.Path, single.Path = "/completed", "/statement"
	ordinary.runs, single.runs = 1<<16, 1<<17 // so that all keys differ
	for _, n := range []int{1, connections} {
		r.progress("the proxy: the service completes, and an ordinary route, %d connections", n)
		got, err := r.race(7, 3, time.Second).run(ctx, ordinary.side(theirs, ordinary.fresh, n),
			completed.side(ours, completed.fresh, n), single.side(atOnce, single.fresh, n))
		if err != nil {
			return err
		}
		rates := got.rates(fmt.Sprintf("complete: upstream ÷ ordinary, %d conns", n), "requests/s").
			Note("p50 %v and %v µs", got[ours].P50, got[theirs].P50).
			Note("CPU of the proxy's process: %v and %v µs a request", got[ours].CPU, got[theirs].CPU)
		if n == connections {
			rates = rates.Want(figure.AtLeast(0.75))
		}
		r.addHere(ctx, rates)
		r.addHere(ctx, figure.Ratio(fmt.Sprintf("the same in one statement ÷ ordinary, %d conns", n), got[atOnce].Rate, got[theirs].Rate, "requests/s").
			Note("p50 %v µs", got[atOnce].P50))
	}
	return nil
}

// service runs an API with a database, behind the proxy. It makes a charge in a transaction of its own, and if the
// request brings a lease, it completes the key in the same transaction; for /statement, in the same statement.
type service struct{ URL string }

func (in service) play(stop context.Context, ready func(any) error) (any, error) {
	var trips, ran atomic.Int64
	pool, err := countingPool(stop, in.URL, connections, &trips)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return nil, serveUntil(stop, chargeHandler(pool, &ran), ready, self)
}

// chargeHandler charges, and for /ran returns how often it did.
func chargeHandler(pool *pgxpool.Pool, ran *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ran" {
			fmt.Fprint(w, ran.Load())
			return
		}
		answer, run := peers.Result().Body, transaction
		if r.URL.Path == "/statement" {
			run = oneStatement
		}
		if err := run(r.Context(), pool, r.Header.Get("Retrysafe-Lease"), string(answer)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		ran.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		w.Write(answer)
	}
}
