package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers/plain"
	"github.com/retrysafe/retrysafe/bench/plots"
)

// Goal 9: pgstore on a real PostgreSQL, next to hand-written statements and DBOS.

func pgGoal(ctx context.Context, r *run) (err error) {
	r.progress("start PostgreSQL")
	s, err := startPostgres(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	parts := []func(context.Context, *run, *pgServer) error{pgPairsPart, pgSweepPart, pgWakePart, pgDBOSPart}
	if r.profiled != 0 {
		parts = parts[:1]
	}
	for _, part := range parts {
		if err := part(ctx, r, s); err != nil {
			return err
		}
	}
	return nil
}

// First part: durable pairs per second of pgstore ÷ those of pgbench with two plain statements, on one server.

// pgTargets returns targets by number of callers. With few callers pgbench uses as many clients, with many callers
// its best number.
func pgTargets() map[int]float64 { return map[int]float64{1: 0.9, 16: 0.9, 256: 3, 1024: 5} }

// pgCostCallers is the number of callers at which the server's cost per pair is measured.
const pgCostCallers = 256

func pgPairsPart(ctx context.Context, r *run, s *pgServer) error {
	if r.profiled != 0 {
		_, err := comparePlain(ctx, r, s, plain.Pgbench{}, pgCostCallers, 0)
		return err
	}
	bench, err := s.pgbench(r)
	if err != nil {
		return err
	}
	if err := s.exec(ctx, plain.PostgresTable); err != nil {
		return err
	}
	best, tried, err := fastest([]int{1, 4, 8, 16, 32, 64}, func(clients int) (float64, error) {
		r.progress("try pgbench with %d clients", clients)
		done, err := bench.Work(ctx, clients, r.length(2*time.Second))
		return done.PerSecond, err
	})
	if err != nil {
		return err
	}
	for _, callers := range []int{1, 16, pgCostCallers, 1024} {
		clients := callers
		if callers > 16 {
			clients = best
		}
		got, err := comparePlain(ctx, r, s, bench, callers, clients)
		if err != nil {
			return err
		}
		fig := got.rates("pgstore ÷ pgbench, pairs/s, "+callersText(callers), "pairs/s").
			Want(figure.AtLeast(pgTargets()[callers])).Note("pgbench with %d clients", clients).
			Plotted(plots.Postgres, "pgstore", float64(callers), got[ours].Rate).
			Plotted(plots.Postgres, "pgbench, at its best", float64(callers), got[theirs].Rate).
			Plotted(plots.Postgres, "the same by pgx", float64(callers), got[byPgx].Rate)
		if callers > 16 {
			fig = fig.Note("its pairs/s by clients, tried first: %s", tried)
		}
		r.addHere(ctx, fig)
		if callers == 1 {
			r.addHere(ctx, figure.Ratio("pgstore ÷ the same statements by pgx, 1 caller", got[ours].Rate, got[byPgx].Rate,
				"pairs/s").Note("in the same process"))
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
func comparePlain(
	ctx context.Context, r *run, s *pgServer, bench plain.Pgbench, callers, clients int,
) (results, error) {
	r.progress("pgstore and pgbench, %s", callersText(callers))
	if err := s.exec(ctx, "DROP TABLE IF EXISTS plain", plain.PostgresTable); err != nil {
		return nil, err
	}
	store, err := s.store(ctx, pgPairsSchema(callers))
	if err != nil {
		return nil, err
	}
	return call[results](ctx, r.here(), pgPairs{
		race: r.race(5, 3, 2*time.Second), Store: store, Server: s.PID(), Pgbench: bench, Callers: callers,
		Clients: clients,
	})
}

func pgPairsSchema(callers int) string { return fmt.Sprintf("pairs%d", callers) }

// pgCost reports the server's cost per pair.
func pgCost(ctx context.Context, r *run, s *pgServer, got results) error {
	our, err := s.hotShare(ctx, pgPairsSchema(pgCostCallers)+".claims", got[ours].Count)
	if err != nil {
		return err
	}
	their, err := s.hotShare(ctx, "plain", got[theirs].Count)
	if err != nil {
		return err
	}
	r.addHere(ctx, figure.Ratio("server CPU a pair ÷ pgbench's, 256 callers", got[ours].CPU, got[theirs].CPU, "µs").
		Want(figure.AtMost(1.0/3)).
		Note("all of the server's processes").Note("pgbench's with connecting"))
	r.addHere(ctx, figure.New("write-ahead log a pair, 256 callers", "B", got[ours].Log...).
		Note("with pgbench %v B", got[theirs].Log))
	r.addHere(ctx, figure.New("completions that touch no index (HOT), 256", "%", 100*our).
		Note("of the updates of claims; with pgbench %.0f %%", 100*their))
	return nil
}

// pgbench writes pgbench's script.
func (s *pgServer) pgbench(r *run) (plain.Pgbench, error) {
	path, err := s.program("pgbench")
	if err != nil {
		return plain.Pgbench{}, err
	}
	b := plain.Pgbench{Path: path, Script: filepath.Join(r.dir, "plain.sql"), URL: s.url()}
	return b, os.WriteFile(b.Script, []byte(plain.PgbenchScript()), 0o600)
}

// pgPairs compares the store with pgbench, and with one caller also with the same statements by pgx. Without clients,
// only our side is measured.
type pgPairs struct {
	race
	Store            pgPlace
	Server           int
	Pgbench          plain.Pgbench
	Callers, Clients int
}

// byPgx is the third side.
const byPgx = "by pgx"

// serviceHeap is the live memory of a typical service. With a tiny heap the process would collect garbage hundreds of
// times per second, at the same cost as its allocations.
const serviceHeap = 64 << 20

func (in pgPairs) play(ctx context.Context, _ func(any) error) (_ any, err error) {
	store, err := in.Store.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	heap := make([]byte, serviceHeap)
	defer runtime.KeepAlive(heap)
	read := func(ctx context.Context) (counters, error) { return readPostgres(ctx, store.pool, in.Server) }
	third := 0
	if in.Callers == 1 {
		third = min(1, in.Clients)
	}
	return in.run(ctx,
		side{name: ours, peer: pairsOf(store), callers: in.Callers, read: read},
		side{name: theirs, peer: in.Pgbench.Work, callers: in.Clients, read: read},
		side{name: byPgx, peer: plain.ByPgx(store.pool), callers: third, read: read})
}
