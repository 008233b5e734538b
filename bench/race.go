package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
)

// race has sides take turns: A B A B …, in so many rounds of so long each, after one round of warm-up.
type race struct {
	Rounds int
	Round  time.Duration
}

// side is one side of a race.
type side struct {
	name    string
	peer    peers.Peer
	callers int // 0 leaves the side out
	// read reads counters before and after each round; nil if there are none.
	read func(context.Context) (counters, error)
}

// counters are readings that grow with the work.
type counters struct {
	cpu   time.Duration // of the measured server
	log   int64         // bytes that the server has written to its log
	syncs int
	trips int64 // round trips to the server
}

// The sides that most races have.
const (
	ours   = "ours"
	theirs = "theirs"
)

// measured holds what a side did, one value per round: pieces of work per second; for each of them, the median and the
// 99th percentile of the duration and the server's CPU time, all in microseconds, bytes of log, syncs, and round trips.
// Count is the work of all rounds, with the warm-up.
type measured struct {
	Rate, P50, P99, CPU, Log, Syncs, Trips figure.Samples
	Count                                  int64
}

// results are what sides did, by name.
type results map[string]measured

// rates compares our rate with theirs.
func (r results) rates(what, unit string) figure.Figure {
	return figure.Ratio(what, r[ours].Rate, r[theirs].Rate, unit)
}

// run returns what each side did.
func (r race) run(ctx context.Context, sides ...side) (results, error) {
	found := results{}
	for i := range 1 + r.Rounds {
		for _, s := range sides {
			if s.callers == 0 {
				continue
			}
			m := found[s.name]
			if err := m.round(ctx, s, r.Round); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			if i == 0 {
				m = measured{Count: m.Count}
			}
			found[s.name] = m
		}
	}
	return found, nil
}

// round adds what a side does in d.
func (m *measured) round(ctx context.Context, s side, d time.Duration) error {
	read := s.read
	if read == nil {
		read = func(context.Context) (counters, error) { return counters{}, nil }
	}
	before, err := read(ctx)
	if err != nil {
		return err
	}
	done, err := s.peer(ctx, s.callers, d)
	if err == nil && done.Count == 0 {
		err = errors.New("nothing was done in a round: the machine is too slow or too busy")
	}
	if err != nil {
		return err
	}
	after, err := read(ctx)
	n := float64(max(done.Count, 1))
	m.Rate = append(m.Rate, done.PerSecond)
	m.P50 = append(m.P50, done.P50)
	m.P99 = append(m.P99, done.P99)
	m.CPU = append(m.CPU, float64((after.cpu-before.cpu).Microseconds())/n)
	m.Log = append(m.Log, float64(after.log-before.log)/n)
	m.Syncs = append(m.Syncs, float64(after.syncs-before.syncs)/n)
	m.Trips = append(m.Trips, float64(after.trips-before.trips)/n)
	m.Count += done.Count
	return err
}

// syncsIn reads the number of syncs from a trace; nil without a trace.
func syncsIn(trace string) func(context.Context) (counters, error) {
	if trace == "" {
		return nil
	}
	return func(context.Context) (c counters, err error) {
		c.syncs, err = disk.CountSyncs(trace)
		return c, err
	}
}

// fastest tries each number of callers and returns the one with the highest rate, and the rates that it tried.
func fastest(callers []int, try func(callers int) (perSecond float64, err error)) (best int, tried string, err error) {
	var highest float64
	var rates []string
	for _, n := range callers {
		rate, err := try(n)
		if err != nil {
			return 0, "", err
		}
		if rate > highest {
			best, highest = n, rate
		}
		rates = append(rates, fmt.Sprintf("%d: %.0f", n, rate))
	}
	return best, strings.Join(rates, " "), nil
}

func callersText(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}
