package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/bench/figure"
)

// Goal 9, third part: how a sweep of millions of records affects callers of pgstore.

func pgSweep(ctx context.Context, r *run, s *pgServer) error {
	in := pgSweepAsked{Rows: 100_000, Idle: 4 * time.Second}
	if r.quick {
		in.Rows, in.Idle = 20_000, time.Second
	}
	var busy, idle, busyPairs, idlePairs, swept []float64
	for range r.rounds(5, 2) {
		got, err := pgSweepOnce(ctx, r, s, in)
		if err != nil {
			return err
		}
		busy, idle = append(busy, got.Busy.P99), append(idle, got.Idle.P99)
		busyPairs, idlePairs = append(busyPairs, got.Busy.Pairs), append(idlePairs, got.Idle.Pairs)
		swept = append(swept, got.Rate)
	}
	r.add(ctx, figure.Figure{
		Goal: 9, Disk: "as is", Unit: "x", What: "callers' p99 during the sweep ÷ before it",
		Samples: ratios(busy, idle), Target: figure.AtMost(2),
		Aside: fmt.Sprintf("p99 of a pair, %d callers: %s ms before, %s ms during; pairs/s: %s, %s; %s rows swept, "+
			"%s a second",
			sweepCallers, figure.Short(figure.Median(idle)), figure.Short(figure.Median(busy)),
			figure.Short(figure.Median(idlePairs)),
			figure.Short(figure.Median(busyPairs)), figure.Short(float64(in.Rows)), figure.Short(figure.Median(swept))),
	})
	return nil
}

// pgSweepOnce fills a fresh store with expired records, and sweeps it.
func pgSweepOnce(ctx context.Context, r *run, s *pgServer, in pgSweepAsked) (found pgSweepFound, err error) {
	if in.Store, err = s.store(ctx, "sweep"); err != nil {
		return found, err
	}
	r.progress("fill %s records that have expired; idle, sweep", figure.Short(float64(in.Rows)))
	const twoDays = 2 * 86_400_000_000
	if err := s.fill(ctx, "sweep", in.Rows, twoDays); err != nil {
		return found, err
	}
	found, err = callRole[pgSweepFound](ctx, r.disks()[0], "", "", "pgsweep", in)
	return found, errors.Join(err, s.exec(ctx, "DROP SCHEMA sweep CASCADE"))
}

type pgSweepAsked struct {
	Store pgAsked
	Rows  int64
	Idle  time.Duration
}

// pgSweepFound holds the callers' measurements before and during the sweep, and the swept rows per second.
type pgSweepFound struct {
	Idle, Busy pgCallersSaw
	Rate       float64
}

// pgCallersSaw is the p99 of a pair in milliseconds, and pairs per second.
type pgCallersSaw struct{ P99, Pairs float64 }

func newCallersSaw(took []int64, d time.Duration) pgCallersSaw {
	return pgCallersSaw{P99: millis(figure.Percentile(took, 0.99)), Pairs: perSecond(int64(len(took)), d)}
}

func pgSweepRole(ctx context.Context, text json.RawMessage, _ func(any) error) (_ any, err error) {
	var in pgSweepAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	store, err := in.Store.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	callers := startCallers(ctx, store)
	time.Sleep(in.Idle / 3)
	callers.cut()
	time.Sleep(in.Idle)
	idle, idleFor := callers.cut()
	swept, sweepErr := sweepAll(ctx, store)
	busy, busyFor := callers.cut()
	if _, err := callers.stop(); err != nil || sweepErr != nil {
		return nil, errors.Join(err, sweepErr)
	}
	if swept < in.Rows {
		return nil, fmt.Errorf("swept %d rows of %d", swept, in.Rows)
	}
	return pgSweepFound{
		Idle: newCallersSaw(idle, idleFor), Busy: newCallersSaw(busy, busyFor), Rate: perSecond(swept, busyFor),
	}, nil
}
