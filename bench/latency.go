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

// Goal 12: a claim takes as long among millions of records as in an empty store. latencystores.go has the stores.

// latencyRecords is the number of records at full length, unless the memory or the time for filling is too short.
const latencyRecords = 10_000_000

// latencyStore is a store that goal 12 measures.
type latencyStore struct {
	name string
	// disk is the name of the disk that the store writes to; empty if it writes to none.
	disk string
	// recordBytes is what a record takes of the machine's memory; 0 if it is not kept there.
	recordBytes int64
	// start starts the store's server, if it has one, and returns two places for stores.
	start func(context.Context, *run) (latencyPlaces, error)
	// open opens the store at a place, in the process that measures.
	open func(ctx context.Context, place string) (_ retrysafe.Store, end func() error, _ error)
}

// latencyPlaces are two places for stores: paths, URLs, or what open understands.
type latencyPlaces struct {
	Empty, Full string
	// insert adds records to the place Full faster than claims and completions would; nil if there is no such way.
	insert func(ctx context.Context, records int64) error
	// settle is called after the last insert.
	settle func(context.Context) error
	// stop ends the server and removes its data.
	stop func() error
}

func latencyGoal(ctx context.Context, r *run) error {
	var errs []error
	for _, s := range latencyStores() {
		if err := s.measure(ctx, r); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

func (s latencyStore) measure(ctx context.Context, r *run) (err error) {
	r.progress("%s: fill up to %s records", s.name, figure.Short(float64(s.most(r))))
	places, err := s.start(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, places.stop()) }()
	in := latencyAsked{
		Store: s.name, Empty: places.Empty, Full: places.Full, Records: s.most(r), Fill: r.length(2 * time.Minute),
		Rounds: r.rounds(7, 5), Round: r.length(time.Second),
	}
	if places.insert != nil {
		if in.Inserted, err = in.inParts(func(n int64) error { return places.insert(ctx, n) }); err != nil {
			return err
		}
		if err := places.settle(ctx); err != nil {
			return err
		}
	}
	got, err := callRole[latencyFound](ctx, r.disks()[0], "", r.profile(12), "latency", in)
	if err != nil {
		return err
	}
	aside := fmt.Sprintf("%s ÷ %s µs; one caller, fresh keys", figure.Short(figure.Median(got.Full)),
		figure.Short(figure.Median(got.Empty)))
	if got.Records < r.mostRecords() {
		aside += fmt.Sprintf("; no more records fit into %s of filling, or into the memory", in.Fill)
	}
	r.add(ctx, figure.Figure{
		Goal: 12, Disk: s.disk, Unit: "x", What: fmt.Sprintf("%s: claim's p50, %s records ÷ none", s.name,
			figure.Short(float64(got.Records))),
		Samples: ratios(got.Full, got.Empty), Target: figure.AtMost(1.3), Aside: aside,
	})
	return nil
}

// most returns the number of records to fill in: as many as asked for, if they fit into half of the free memory.
func (s latencyStore) most(r *run) int64 {
	records := r.mostRecords()
	if s.recordBytes > 0 {
		records = min(records, freeMemory()/2/s.recordBytes)
	}
	return records
}

func (r *run) mostRecords() int64 {
	if r.quick {
		return min(r.records, 100_000)
	}
	return r.records
}

// latencyAsked holds the parameters of the role.
type latencyAsked struct {
	Store, Empty, Full string
	// Records is the number of records to fill in, Inserted how many are there already, Fill the time for it.
	Records, Inserted int64
	Fill              time.Duration
	Rounds            int
	Round             time.Duration
}

// latencyFound holds the number of records, and the p50 of claims in microseconds, one value per round.
type latencyFound struct {
	Records     int64
	Empty, Full []float64
}

// inParts adds records part by part until there are enough or the time for it has passed, and returns their number.
func (in latencyAsked) inParts(add func(n int64) error) (records int64, err error) {
	const part = 250_000
	for began := time.Now(); records < in.Records && time.Since(began) < in.Fill; {
		n := min(part, in.Records-records)
		if err := add(n); err != nil {
			return records, err
		}
		records += n
	}
	return records, nil
}

func latencyRole(ctx context.Context, text json.RawMessage, _ func(any) error) (_ any, err error) {
	var in latencyAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	s, err := latencyStoreNamed(in.Store)
	if err != nil {
		return nil, err
	}
	empty, endEmpty, err := s.open(ctx, in.Empty)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, endEmpty()) }()
	full, endFull, err := s.open(ctx, in.Full)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, endFull()) }()
	found := latencyFound{Records: in.Inserted}
	if in.Inserted == 0 {
		var filled int64
		found.Records, err = in.inParts(func(n int64) error {
			filled += n
			return fill(ctx, full, filled-n, filled, func() retrysafe.Retention { return retrysafe.Retention{} })
		})
		if err != nil {
			return nil, err
		}
	}
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
