package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers/plain"
	"github.com/retrysafe/retrysafe/bench/plots"
	"github.com/retrysafe/retrysafe/stores/mysqlstore"
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
	best, tried, err := fastest([]int{8, 16, 32, 64, 128, 256}, func(connections int) (float64, error) {
		r.progress("try plain statements on %d connections", connections)
		dsn, err := s.fresh(ctx, "plain")
		if err != nil {
			return 0, err
		}
		got, err := call[results](ctx, r.here(), mysqlPairs{
			race: race{1, r.length(2 * time.Second)}, DSN: dsn, Server: s.PID(), Connections: connections,
		})
		return got[theirs].Rate.Median(), err
	})
	if err != nil {
		return err
	}
	for _, callers := range []int{1, 16, 256} {
		connections := callers
		if callers > 16 {
			connections = best
		}
		got, err := s.compare(ctx, r, callers, connections)
		if err != nil {
			return err
		}
		fig := got.rates("mysqlstore ÷ plain SQL, pairs/s, "+callersText(callers), "pairs/s").
			Want(mysqlTargets()[callers]).Note("plain with %d connections", connections).
			Plotted(plots.MySQL, "mysqlstore", float64(callers), got[ours].Rate).
			Plotted(plots.MySQL, "plain, at its best", float64(callers), got[theirs].Rate)
		if callers > 16 {
			fig = fig.Note("its pairs/s by connections, tried first: %s", tried)
		}
		r.addHere(ctx, fig)
		if callers != 256 {
			continue
		}
		r.addHere(ctx, figure.Ratio("server CPU a pair ÷ plain SQL's, 256 callers", got[ours].CPU, got[theirs].CPU, "µs"))
		r.addHere(ctx, figure.New("redo log a pair, 256 callers", "B", got[ours].Log...).
			Note("with plain statements %v B", got[theirs].Log))
	}
	return nil
}

// compare measures in fresh databases. Without connections, only our side.
func (s *mysqlServer) compare(ctx context.Context, r *run, callers, connections int) (results, error) {
	r.progress("mysqlstore and plain statements, %s", callersText(callers))
	dsn, err := s.fresh(ctx, fmt.Sprintf("pairs%d", callers))
	if err != nil {
		return nil, err
	}
	return call[results](ctx, r.here(), mysqlPairs{
		race: r.race(5, 3, 2*time.Second), DSN: dsn, Server: s.PID(), Callers: callers, Connections: connections,
	})
}

// mysqlPairs compares the store with the plain statements. With no callers only the plain statements are measured, with
// no connections only the store.
type mysqlPairs struct {
	race
	DSN                          string
	Server, Callers, Connections int
}

func (in mysqlPairs) play(ctx context.Context, _ func(any) error) (_ any, err error) {
	db, err := sql.Open("mysql", in.DSN)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := mysqlstore.New(ctx, db, mysqlstore.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	peer, err := plain.OpenMySQL(ctx, in.DSN, max(in.Connections, 1))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, peer.Close()) }()
	heap := make([]byte, serviceHeap)
	defer runtime.KeepAlive(heap)
	read := func(ctx context.Context) (counters, error) { return readMySQL(ctx, db, in.Server) }
	return in.run(ctx,
		side{name: ours, peer: pairsOf(store), callers: in.Callers, read: read},
		side{name: theirs, peer: peer.Pairs(), callers: in.Connections, read: read})
}
