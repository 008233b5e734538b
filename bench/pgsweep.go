package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/bench/figure"
)

// Goal 9, third part: how a sweep of millions of records affects callers of pgstore.

func pgSweepPart(ctx context.Context, r *run, s *pgServer) error {
	in := pgSweep{Rows: 100_000, Idle: 4 * time.Second}
	if r.Quick {
		in.Rows, in.Idle = 20_000, time.Second
	}
	var all sweepFound
	for range r.rounds(5, 2) {
		got, err := in.once(ctx, r, s)
		if err != nil {
			return err
		}
		all.add(got)
	}
	r.addHere(ctx, all.figure(in.Rows).Want(figure.AtMost(2)).Note("%v rows a second", all.Rate))
	return nil
}

// pgSweep sweeps a store whose records have expired.
type pgSweep struct {
	Store pgPlace
	Rows  int64
	Idle  time.Duration
}

// once fills a fresh store with expired records, and sweeps it.
func (in pgSweep) once(ctx context.Context, r *run, s *pgServer) (found sweepFound, err error) {
	if in.Store, err = s.store(ctx, "sweep"); err != nil {
		return found, err
	}
	r.progress("fill %s records that have expired; idle, sweep", figure.Short(float64(in.Rows)))
	const twoDays = 2 * 86_400_000_000
	if err := s.fill(ctx, "sweep", in.Rows, twoDays); err != nil {
		return found, err
	}
	found, err = call[sweepFound](ctx, r.here(), in)
	return found, errors.Join(err, s.exec(ctx, "DROP SCHEMA sweep CASCADE"))
}

func (in pgSweep) play(ctx context.Context, _ func(any) error) (_ any, err error) {
	store, err := in.Store.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	var found sweepFound
	from := time.Now().Add(in.Idle / 3)
	busy, err := found.measure(ctx, store, from, expiry{first: from.Add(in.Idle)})
	if err != nil {
		return nil, err
	}
	if busy.swept < in.Rows {
		return nil, fmt.Errorf("swept %d rows of %d, which have all expired: this is a defect of pgstore", busy.swept, in.Rows)
	}
	found.Rate = figure.Samples{float64(busy.swept) / busy.took.Seconds()}
	return found, nil
}
