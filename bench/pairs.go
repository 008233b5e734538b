package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/rawlog"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// Goals 1 and 2: durable pairs per second of sqlitestore ÷ those of a raw write-ahead log with group commit.

// pairsGoal compares on d, with a target for each number of callers.
func pairsGoal(number int, d disk.Disk, targets map[int]float64) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		all := []int{1, 16, 64, 256}
		if r.profiled != 0 {
			all = []int{64}
		}
		for _, callers := range all {
			r.progress("%s, disk %s", callersText(callers), d.Name)
			got, counted, err := comparePairs(ctx, r, d, number, callers)
			if err != nil {
				return err
			}
			r.add(ctx, figure.Figure{
				Goal: number, Disk: d.Name, Unit: "x",
				What:    "sqlitestore ÷ raw log, pairs/s, " + callersText(callers),
				Samples: ratios(got.Ours, got.Raw),
				Target:  figure.AtLeast(targets[callers]),
				Aside: fmt.Sprintf("%s ÷ %s pairs/s; syncs a pair: %.2f, raw log %.2f",
					figure.Short(figure.Median(got.Ours)), figure.Short(figure.Median(got.Raw)),
					counted.OursSyncs, counted.RawSyncs),
			})
		}
		return nil
	}
}

// comparePairs measures, and counts syncs: in the same run if that is under strace anyway, otherwise in a separate
// short run, so that strace does not change the figures.
func comparePairs(ctx context.Context, r *run, d disk.Disk, goal, callers int) (got, counted pairsFound, err error) {
	in := pairsAsked{
		Dir: r.dir, Callers: callers, Rounds: r.rounds(7, 3), Warm: r.length(500 * time.Millisecond),
		Round: r.length(500 * time.Millisecond), OursOnly: r.profile(goal) != "",
	}
	trace := filepath.Join(r.dir, "syncs")
	if d.Delay > 0 {
		in.Trace = trace
		got, err = callRole[pairsFound](ctx, d, trace, r.profile(goal), "pairs", in)
		return got, got, err
	}
	got, err = callRole[pairsFound](ctx, d, "", r.profile(goal), "pairs", in)
	if err != nil {
		return got, counted, err
	}
	in.Trace, in.Rounds, in.Round, in.OursOnly = trace, 1, 200*time.Millisecond, false
	counted, err = callRole[pairsFound](ctx, d, trace, "", "pairs", in)
	return got, counted, err
}

// pairsAsked holds the parameters of the role.
type pairsAsked struct {
	Dir         string
	Callers     int
	Rounds      int
	Warm, Round time.Duration
	// Count, if set, ends a round after so many pairs by one caller, regardless of the time.
	Count int
	// Trace is the file in which syncs are counted; if it is empty, they are not counted.
	Trace string
	// OursOnly leaves out the raw log, for a profile.
	OursOnly bool
}

// pairsFound holds pairs per second, one value per round, and syncs per pair over all rounds.
type pairsFound struct {
	Ours, Raw           []float64
	OursSyncs, RawSyncs float64
}

// pairsRole measures both sides in turn.
func pairsRole(ctx context.Context, text json.RawMessage, _ func(any) error) (_ any, err error) {
	var in pairsAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
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
	result := pairResult()
	ours := turn{asked: in, f: func() error { return storePair(ctx, store, result, retrysafe.Retention{}) }}
	raw := turn{asked: in, f: func() error { return rawPair(log, result) }}
	sides := []*turn{&raw, &ours}
	if in.OursOnly {
		sides = sides[1:]
	}
	if err := takeInTurn(sides, in.Rounds); err != nil {
		return nil, err
	}
	return pairsFound{
		Ours: ours.rates, Raw: raw.rates, OursSyncs: ours.syncsAPair(), RawSyncs: raw.syncsAPair(),
	}, nil
}

// takeInTurn warms up, and measures.
func takeInTurn(sides []*turn, rounds int) error {
	for _, side := range sides {
		if err := side.warm(); err != nil {
			return err
		}
	}
	for range rounds {
		for _, side := range sides {
			if err := side.take(); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn is one side of the comparison.
type turn struct {
	asked pairsAsked
	f     func() error
	rates []float64
	pairs int64
	syncs int
}

func (t *turn) warm() error {
	_, _, err := rate(t.asked.Callers, t.asked.Warm, t.f)
	return err
}

func (t *turn) take() error {
	before, err := t.count()
	if err != nil {
		return err
	}
	n, took, err := t.round()
	if err != nil {
		return err
	}
	after, err := t.count()
	t.rates = append(t.rates, perSecond(n, took))
	t.pairs += n
	t.syncs += after - before
	return err
}

func (t *turn) round() (int64, time.Duration, error) {
	if t.asked.Count == 0 {
		return rate(t.asked.Callers, t.asked.Round, t.f)
	}
	began := time.Now()
	for range t.asked.Count {
		if err := t.f(); err != nil {
			return 0, 0, err
		}
	}
	return int64(t.asked.Count), time.Since(began), nil
}

func (t *turn) count() (int, error) {
	if t.asked.Trace == "" {
		return 0, nil
	}
	return disk.CountSyncs(t.asked.Trace)
}

func (t *turn) syncsAPair() float64 { return float64(t.syncs) / float64(max(t.pairs, 1)) }

// ratios divides round by round, because a disturbance of one round affects both sides.
func ratios(ours, theirs []float64) []float64 {
	var out []float64
	for i := range min(len(ours), len(theirs)) {
		out = append(out, ours[i]/theirs[i])
	}
	return out
}

func callersText(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}
