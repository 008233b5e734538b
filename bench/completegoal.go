package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/load"
)

// Goal 14: what it costs that a service completes its key inside its own transaction. A transaction with complete beside
// the same transaction without it, and a proxied route whose service completes beside an ordinary proxied route.

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
		if err := completions(ctx, r, store, pipelined); err != nil {
			return err
		}
	}
	if r.profiled != 0 {
		return nil
	}
	return completedRoute(ctx, r, s)
}

// completions compares transactions, statement by statement or all statements in one message.
func completions(ctx context.Context, r *run, store pgAsked, pipelined bool) error {
	how, most := "statement by statement", 1.0
	if pipelined {
		how, most = "pipelined", 0
	}
	for _, c := range []struct{ callers, transactions int }{{1, 2000}, {16, 6000}, {64, 10_000}} {
		callers, transactions := c.callers, c.transactions
		if r.quick {
			transactions /= 10
		}
		r.progress("transactions with and without complete, %s, %s", how, callersText(callers))
		got, err := callRole[completionsFound](ctx, r.disks()[0], "", r.profile(14), "completions", completionsAsked{
			URL: store.URL, Callers: callers, Pipelined: pipelined, Rounds: r.rounds(5, 3), Transactions: transactions,
		})
		if err != nil {
			return err
		}
		if callers == 1 {
			r.add(ctx, figure.Figure{
				Goal: 14, What: "round trips that complete adds, " + how,
				Samples: []float64{got.With.Trips - got.Without.Trips}, Target: figure.AtMost(most),
				Aside: fmt.Sprintf("%s with complete, %s without", figure.Short(got.With.Trips),
					figure.Short(got.Without.Trips)),
			})
		}
		r.add(ctx, figure.Figure{
			Goal: 14, Disk: "as is", Unit: "x", Samples: ratios(got.With.Rates, got.Without.Rates),
			What: fmt.Sprintf("with complete ÷ without, %s, %s", how, callersText(callers)),
			Aside: fmt.Sprintf("%s ÷ %s transactions/s", figure.Short(figure.Median(got.With.Rates)),
				figure.Short(figure.Median(got.Without.Rates))),
		})
	}
	return nil
}

// completedRoutes is the configuration of the proxy. The service completes the keys of the second route.
const completedRoutes = `routes:
  POST /payments: {}
  POST /completed: {complete: upstream}
`

// completedRoute compares a route whose service completes with an ordinary one, both of one proxy in front of one
// service.
func completedRoute(ctx context.Context, r *run, pg *pgServer) (err error) {
	binary, err := buildBinary(ctx, r.dir)
	if err != nil {
		return err
	}
	config := filepath.Join(r.dir, "routes.yaml")
	if err := os.WriteFile(config, []byte(completedRoutes), 0o600); err != nil {
		return err
	}
	var s servers
	defer func() { err = errors.Join(err, s.end()) }()
	service, err := startServer[string](ctx, &s, disk.Disk{}, "", "", "service", pg.url())
	if err != nil {
		return err
	}
	proxy, err := startServer[proxyFound](ctx, &s, disk.Disk{}, "", "", "binary", binaryAsked{
		Binary: binary, Upstream: service, Store: pg.url(), Config: config, Log: filepath.Join(r.dir, "proxy.log"),
	})
	if err != nil {
		return err
	}
	for _, n := range []int{1, connections} {
		r.progress("the proxy: the service completes, and an ordinary route, %d connections", n)
		side := func(path string, runs int) *contestant { // with a number of their own, so that all keys differ
			return &contestant{upstream: service, pid: proxy.PID, runs: uint32(runs), target: load.Target{
				Addr: proxy.Addr, Path: path, Body: chargeBody, KeyHeader: "Idempotency-Key", Quoted: true,
			}}
		}
		completed, ordinary := side("/completed", n<<16), side("/payments", n<<16+1<<15)
		for i := range 1 + r.rounds(7, 3) {
			for _, c := range []*contestant{ordinary, completed} {
				if err := c.fresh(ctx, n, r.length(time.Second)); err != nil {
					return err
				}
				if i == 0 {
					c.forget()
				}
			}
		}
		r.add(ctx, figure.Figure{
			Goal: 14, Disk: "as is", Unit: "x", Samples: ratios(completed.rates, ordinary.rates),
			What: fmt.Sprintf("complete: upstream ÷ ordinary route, requests/s, %d conns", n),
			Aside: fmt.Sprintf("%s ÷ %s requests/s; p50 %s and %s µs; CPU of the proxy's process: %s and %s µs a request",
				figure.Short(figure.Median(completed.rates)), figure.Short(figure.Median(ordinary.rates)),
				figure.Short(figure.Median(completed.p50)), figure.Short(figure.Median(ordinary.p50)),
				figure.Short(figure.Median(completed.cpu)), figure.Short(figure.Median(ordinary.cpu))),
		})
	}
	return nil
}
