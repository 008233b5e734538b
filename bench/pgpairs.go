package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/figure"
)

// Goal 9, first part: durable pairs per second of pgstore ÷ those of pgbench with two plain statements, on one
// server.

// pgTargets returns targets by number of callers. With few callers pgbench uses as many clients, with many callers
// its best number.
func pgTargets() map[int]float64 { return map[int]float64{1: 0.9, 16: 0.9, 256: 3, 1024: 5} }

// pgCostCallers is the number of callers at which the server's cost per pair is measured.
const pgCostCallers = 256

func pgPairs(ctx context.Context, r *run, s *pgServer) error {
	if r.profiled != 0 {
		_, err := comparePlain(ctx, r, s, pgbench{}, pgCostCallers, 0)
		return err
	}
	bench, err := s.pgbench(r)
	if err != nil {
		return err
	}
	if err := s.exec(ctx, plainTable); err != nil {
		return err
	}
	best, tried, err := bench.bestClients(ctx, r)
	if err != nil {
		return err
	}
	for _, callers := range []int{1, 16, 256, 1024} {
		clients, aside := callers, ""
		if callers > 16 {
			clients, aside = best, "; its pairs/s by clients, tried first: "+tried
		}
		got, err := comparePlain(ctx, r, s, bench, callers, clients)
		if err != nil {
			return err
		}
		r.add(ctx, figure.Figure{
			Goal: 9, Disk: "as is", Unit: "x", What: "pgstore ÷ pgbench, pairs/s, " + callersText(callers),
			Samples: ratios(got.Ours.Rates, got.Plain.Rates), Target: figure.AtLeast(pgTargets()[callers]),
			Aside: fmt.Sprintf("%s ÷ %s pairs/s; pgbench with %d clients%s", figure.Short(figure.Median(got.Ours.Rates)),
				figure.Short(figure.Median(got.Plain.Rates)), clients, aside),
		})
		if callers == 1 {
			r.add(ctx, figure.Figure{
				Goal: 9, Disk: "as is", Unit: "x", What: "pgstore ÷ the same statements by pgx, 1 caller",
				Samples: ratios(got.Ours.Rates, got.ByHand.Rates),
				Aside:   fmt.Sprintf("÷ %s pairs/s, in the same process", figure.Short(figure.Median(got.ByHand.Rates))),
			})
		}
		if callers != pgCostCallers {
			continue
		}
		if err := pgCost(ctx, r, s, got); err != nil {
			return err
		}
	}
	return nil
}

// comparePlain measures on fresh tables.
func comparePlain(ctx context.Context, r *run, s *pgServer, bench pgbench, callers, clients int) (pgPairsFound, error) {
	r.progress("pgstore and pgbench, %s", callersText(callers))
	if bench.Path != "" {
		if err := s.exec(ctx, "DROP TABLE plain", plainTable); err != nil {
			return pgPairsFound{}, err
		}
	}
	store, err := s.store(ctx, pgPairsSchema(callers))
	if err != nil {
		return pgPairsFound{}, err
	}
	return callRole[pgPairsFound](ctx, r.disks()[0], "", r.profile(9), "pgpairs", pgPairsAsked{
		Store: store, Server: s.PID(), Pgbench: bench, Callers: callers, Clients: clients,
		Rounds: r.rounds(5, 3), Round: r.length(2 * time.Second),
	})
}

func pgPairsSchema(callers int) string { return fmt.Sprintf("pairs%d", callers) }

// pgCost reports the server's cost per pair.
func pgCost(ctx context.Context, r *run, s *pgServer, got pgPairsFound) error {
	ours, err := s.hotShare(ctx, pgPairsSchema(pgCostCallers)+".claims", got.Ours.Pairs)
	if err != nil {
		return err
	}
	plain, err := s.hotShare(ctx, "plain", got.Plain.Pairs)
	if err != nil {
		return err
	}
	r.add(ctx, figure.Figure{
		Goal: 9, Disk: "as is", Unit: "x", What: "server CPU a pair ÷ pgbench's, 256 callers",
		Samples: ratios(got.Ours.CPU, got.Plain.CPU), Target: figure.AtMost(1.0 / 3),
		Aside: fmt.Sprintf("%s ÷ %s µs; all of the server's processes; pgbench's with connecting",
			figure.Short(figure.Median(got.Ours.CPU)), figure.Short(figure.Median(got.Plain.CPU))),
	})
	r.add(ctx, figure.Figure{
		Goal: 9, Disk: "as is", Unit: "B", What: "write-ahead log a pair, 256 callers", Samples: got.Ours.WAL,
		Aside: fmt.Sprintf("with pgbench %s B", figure.Short(figure.Median(got.Plain.WAL))),
	})
	r.add(ctx, figure.Figure{
		Goal: 9, Disk: "as is", Unit: "%", What: "completions that touch no index (HOT), 256", Samples: []float64{100 * ours},
		Aside: fmt.Sprintf("of the updates of claims; with pgbench %.0f %%", 100*plain),
	})
	return nil
}

// pgPairsAsked holds the parameters of the role. Without a path of pgbench, only our side is measured.
type pgPairsAsked struct {
	Store            pgAsked
	Server           int
	Pgbench          pgbench
	Callers, Clients int
	Rounds           int
	Round            time.Duration
}

// pgPairsFound has ByHand only for one caller.
type pgPairsFound struct{ Ours, Plain, ByHand pgSide }

// pgSide holds, for each round, pairs per second, and the server's CPU time in microseconds and bytes of log per
// pair.
type pgSide struct {
	Rates, CPU, WAL []float64
	Pairs           int64
}

// serviceHeap is the live memory of a typical service. With a tiny heap the process would collect garbage hundreds of
// times per second, at the same cost as its allocations.
const serviceHeap = 64 << 20

func pgPairsRole(ctx context.Context, text json.RawMessage, _ func(any) error) (_ any, err error) {
	var in pgPairsAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	store, err := in.Store.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	heap := make([]byte, serviceHeap)
	defer runtime.KeepAlive(heap)
	result := pairResult()
	pair := func() error { return storePair(ctx, store, result, retrysafe.Retention{}) }
	byHand := func() error { return pairByHand(ctx, store.pool) }
	var found pgPairsFound
	for i := range 1 + in.Rounds {
		if i == 1 {
			found.Ours.forget() // the first round is a warm-up
			found.Plain.forget()
			found.ByHand.forget()
		}
		err := found.Ours.take(ctx, in.Server, store, func() (int64, float64, error) {
			n, took, err := rate(in.Callers, in.Round, pair)
			return n, perSecond(n, took), err
		})
		if err != nil || in.Pgbench.Path == "" {
			if err != nil {
				return nil, err
			}
			continue
		}
		if err := found.Plain.take(ctx, in.Server, store, func() (int64, float64, error) {
			return in.Pgbench.run(ctx, in.Clients, in.Round)
		}); err != nil {
			return nil, err
		}
		if in.Callers > 1 {
			continue
		}
		if err := found.ByHand.take(ctx, in.Server, store, func() (int64, float64, error) {
			n, took, err := rate(1, in.Round, byHand)
			return n, perSecond(n, took), err
		}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// take runs one round and reads the server's counters before and after it.
func (s *pgSide) take(ctx context.Context, pid int, store pgOpened, play func() (int64, float64, error)) error {
	before, err := readPostgres(ctx, store.pool, pid)
	if err != nil {
		return err
	}
	n, rate, err := play()
	if err != nil {
		return err
	}
	after, err := readPostgres(ctx, store.pool, pid)
	pairs := float64(max(n, 1))
	s.Rates = append(s.Rates, rate)
	s.CPU = append(s.CPU, float64((after.cpu-before.cpu).Microseconds())/pairs)
	s.WAL = append(s.WAL, float64(after.wal-before.wal)/pairs)
	s.Pairs += n
	return err
}

func (s *pgSide) forget() { s.Rates, s.CPU, s.WAL = nil, nil, nil }
