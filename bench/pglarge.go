package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/figure"
)

// Goal 9, second part: a claim takes as long among millions of records as in an empty store.

func pgLarge(ctx context.Context, r *run, s *pgServer) error {
	rows := int64(1_000_000)
	if r.quick {
		rows = 100_000
	}
	in := pgLargeAsked{Rounds: r.rounds(7, 5), Round: r.length(time.Second)}
	var err error
	if in.Empty, err = s.store(ctx, "empty"); err != nil {
		return err
	}
	if in.Full, err = s.store(ctx, "large"); err != nil {
		return err
	}
	r.progress("fill %s records", figure.Short(float64(rows)))
	const second = 1_000_000
	if err := s.fill(ctx, "large", rows, second); err != nil {
		return err
	}
	r.progress("claims among %s records and among none", figure.Short(float64(rows)))
	got, err := callRole[pgLargeFound](ctx, r.disks()[0], "", "", "pglarge", in)
	if err != nil {
		return err
	}
	r.add(ctx, figure.Figure{
		Goal: 9, Disk: "as is", Unit: "x", What: fmt.Sprintf("claim's p50: %s records ÷ none", figure.Short(float64(rows))),
		Samples: ratios(got.Full, got.Empty), Target: figure.AtMost(1.3),
		Aside: fmt.Sprintf("%s ÷ %s µs; one caller, fresh keys", figure.Short(figure.Median(got.Full)),
			figure.Short(figure.Median(got.Empty))),
	})
	return s.exec(ctx, "DROP SCHEMA large CASCADE")
}

type pgLargeAsked struct {
	Empty, Full pgAsked
	Rounds      int
	Round       time.Duration
}

// pgLargeFound holds the p50 of claims in microseconds, one value per round.
type pgLargeFound struct{ Empty, Full []float64 }

func pgLargeRole(ctx context.Context, text json.RawMessage, _ func(any) error) (_ any, err error) {
	var in pgLargeAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	empty, err := in.Empty.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, empty.close()) }()
	full, err := in.Full.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, full.close()) }()
	var found pgLargeFound
	for i := range 1 + in.Rounds {
		none, err := claimsP50(ctx, empty, in.Round)
		if err != nil {
			return nil, err
		}
		many, err := claimsP50(ctx, full, in.Round)
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first round is a warm-up
			found.Empty, found.Full = append(found.Empty, none), append(found.Full, many)
		}
	}
	return found, nil
}

// claimsP50 makes pairs in sequence for d, and returns the p50 of their claims in microseconds.
func claimsP50(ctx context.Context, s retrysafe.Store, d time.Duration) (float64, error) {
	var took []int64
	result := pairResult()
	for began := time.Now(); time.Since(began) < d; {
		p := freshParams()
		before := time.Now()
		c, err := s.Claim(ctx, p)
		took = append(took, time.Since(before).Nanoseconds())
		if err == nil && c.Verdict != retrysafe.Acquired {
			err = fmt.Errorf("claim of a fresh key: %v", c.Verdict)
		}
		if err == nil {
			err = s.Complete(ctx, c.Lease, result, retrysafe.Retention{})
		}
		if err != nil {
			return 0, err
		}
	}
	return float64(figure.Percentile(took, 0.5)) / 1e3, nil
}
