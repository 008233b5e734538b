package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/bench/figure"
)

// Goal 16: durable pairs per second of mysqlstore ÷ those of two plain statements, each a transaction of its own and
// prepared, on one MariaDB and with the same driver.

// mysqlTargets returns targets by number of callers. Without one, the figure is for information.
func mysqlTargets() map[int]*figure.Target { return map[int]*figure.Target{256: figure.AtLeast(2)} }

func mysqlGoal(ctx context.Context, r *run) (err error) {
	r.progress("start MariaDB")
	s, err := startMariaDB(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if r.profiled != 0 {
		_, err := s.compare(ctx, r, 256, 0)
		return err
	}
	best, tried, err := s.bestConnections(ctx, r)
	if err != nil {
		return err
	}
	for _, callers := range []int{1, 16, 256} {
		connections, aside := callers, ""
		if callers > 16 {
			connections, aside = best, "; its pairs/s by connections, tried first: "+tried
		}
		got, err := s.compare(ctx, r, callers, connections)
		if err != nil {
			return err
		}
		r.add(ctx, figure.Figure{
			Goal: 16, Disk: "as is", Unit: "x", What: "mysqlstore ÷ two plain statements, pairs/s, " + callersText(callers),
			Samples: ratios(got.Ours.Rates, got.Plain.Rates), Target: mysqlTargets()[callers],
			Aside: fmt.Sprintf("%s ÷ %s pairs/s; plain with %d connections%s", figure.Short(figure.Median(got.Ours.Rates)),
				figure.Short(figure.Median(got.Plain.Rates)), connections, aside),
		})
		if callers != 256 {
			continue
		}
		r.add(ctx, figure.Figure{
			Goal: 16, Disk: "as is", Unit: "x", What: "server CPU a pair ÷ that of plain statements, 256 callers",
			Samples: ratios(got.Ours.CPU, got.Plain.CPU),
			Aside: fmt.Sprintf("%s ÷ %s µs", figure.Short(figure.Median(got.Ours.CPU)),
				figure.Short(figure.Median(got.Plain.CPU))),
		})
		r.add(ctx, figure.Figure{
			Goal: 16, Disk: "as is", Unit: "B", What: "redo log a pair, 256 callers", Samples: got.Ours.Log,
			Aside: fmt.Sprintf("with plain statements %s B", figure.Short(figure.Median(got.Plain.Log))),
		})
	}
	return nil
}

// compare measures in fresh databases. Without connections, only our side.
func (s *mysqlServer) compare(ctx context.Context, r *run, callers, connections int) (mysqlPairsFound, error) {
	r.progress("mysqlstore and plain statements, %s", callersText(callers))
	dsn, err := s.fresh(ctx, fmt.Sprintf("pairs%d", callers))
	if err != nil {
		return mysqlPairsFound{}, err
	}
	return callRole[mysqlPairsFound](ctx, r.disks()[0], "", r.profile(16), "mysqlpairs", mysqlPairsAsked{
		DSN: dsn, Server: s.PID(), Callers: callers, Connections: connections,
		Rounds: r.rounds(5, 3), Round: r.length(2 * time.Second),
	})
}

// bestConnections finds the number of connections with which plain statements are fastest, and returns the rates that
// it tried.
func (s *mysqlServer) bestConnections(ctx context.Context, r *run) (best int, tried string, err error) {
	var fastest float64
	for _, connections := range []int{8, 16, 32, 64, 128, 256} {
		r.progress("try plain statements on %d connections", connections)
		dsn, err := s.fresh(ctx, "plain")
		if err != nil {
			return 0, "", err
		}
		got, err := callRole[mysqlPairsFound](ctx, r.disks()[0], "", "", "mysqlpairs", mysqlPairsAsked{
			DSN: dsn, Server: s.PID(), Connections: connections, Rounds: 1, Round: r.length(2 * time.Second),
		})
		if err != nil {
			return 0, "", err
		}
		rate := figure.Median(got.Plain.Rates)
		if rate > fastest {
			best, fastest = connections, rate
		}
		if tried != "" {
			tried += " "
		}
		tried += fmt.Sprintf("%d: %.0f", connections, rate)
	}
	return best, tried, nil
}
