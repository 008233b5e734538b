package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers/rawlog"
	"github.com/retrysafe/retrysafe/bench/plots"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// Goals 1 and 2: durable pairs per second of sqlitestore ÷ those of a raw write-ahead log with group commit.

// pairsGoal compares on d, with a target for each number of callers.
func pairsGoal(d disk.Disk, targets map[int]float64) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		all := slices.Sorted(maps.Keys(targets))
		if r.profiled != 0 {
			all = []int{64}
		}
		for _, callers := range all {
			r.progress("%s, disk %s", callersText(callers), d.Name)
			got, traced, err := comparePairs(ctx, r, d, callers)
			if err != nil {
				return err
			}
			r.add(ctx, got.rates("sqlitestore ÷ raw log, pairs/s, "+callersText(callers), "pairs/s").On(d.Name).Want(figure.AtLeast(targets[callers])).
				Note("syncs a pair: %.2f, raw log %.2f", traced[ours].Syncs.Median(), traced[theirs].Syncs.Median()).
				Plotted(plots.SQLite, "sqlitestore"+on(d.Name), float64(callers), got[ours].Rate).
				Plotted(plots.SQLite, "raw log"+on(d.Name), float64(callers), got[theirs].Rate))
		}
		return nil
	}
}

// comparePairs measures, and counts syncs: in the same run if that is under strace anyway, otherwise in a separate
// short run, so that strace does not change the figures.
func comparePairs(ctx context.Context, r *run, d disk.Disk, callers int) (got, traced results, err error) {
	in := pairs{race: r.race(7, 3, 500*time.Millisecond), Dir: r.dir, Callers: callers, Theirs: r.theirs(callers)}
	at := place{disk: d, profile: r.profile()}
	trace := filepath.Join(r.dir, "syncs")
	if d.Delay > 0 {
		in.Trace, at.trace = trace, trace
	}
	if got, err = call[results](ctx, at, in); err != nil || d.Delay > 0 || r.profiled != 0 {
		return got, got, err
	}
	in.Trace, in.race = trace, race{Rounds: 1, Round: 200 * time.Millisecond}
	traced, err = call[results](ctx, place{disk: d, trace: trace}, in)
	return got, traced, err
}

type pairs struct {
	race
	Dir             string
	Callers, Theirs int
	// Trace is the file in which syncs are counted; if it is empty, they are not counted.
	Trace string
}

func (in pairs) play(ctx context.Context, _ func(any) error) (_ any, err error) {
	dir, err := os.MkdirTemp(in.Dir, "pairs")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	store, err := sqlitestore.Open(filepath.Join(dir, "keys.db"), sqlitestore.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	log, err := rawlog.Create(filepath.Join(dir, "raw.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	return in.run(ctx,
		side{name: theirs, peer: log.Pairs(), callers: in.Theirs, read: syncsIn(in.Trace)},
		side{name: ours, peer: pairsOf(store), callers: in.Callers, read: syncsIn(in.Trace)})
}
