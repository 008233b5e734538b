package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/bench/figure"
)

// Goal 14: what it costs that a service completes its key inside its own transaction: a transaction with complete
// beside the same transaction without it.

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
	return nil
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
