package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/dbos"
	"github.com/retrysafe/retrysafe/bench/figure"
)

// Goal 9, last part: pgstore next to DBOS, whose workflows run once for each ID, on one server.

// dbosCallers is the number of concurrent callers on each side.
const dbosCallers = 64

func pgDBOS(ctx context.Context, r *run, s *pgServer) error {
	r.progress("install DBOS")
	dir := filepath.Join(r.dir, "dbos")
	if err := dbos.Install(ctx, dir); err != nil {
		return err
	}
	store, err := s.store(ctx, "besidedbos")
	if err != nil {
		return err
	}
	if err := s.exec(ctx, "CREATE DATABASE dbos"); err != nil {
		return err
	}
	r.progress("pgstore and DBOS, %s", callersText(dbosCallers))
	got, err := callRole[pgDBOSFound](ctx, r.disks()[0], "", "", "pgdbos", pgDBOSAsked{
		Store: store, Dir: dir, URL: s.URL("dbos"), Rounds: r.rounds(5, 3), Round: r.length(2 * time.Second),
	})
	if err != nil {
		return err
	}
	r.add(ctx, dbosFigure("fresh", 3.5, got.Fresh))
	r.add(ctx, dbosFigure("replay", 25, got.Replay))
	return nil
}

func dbosFigure(what string, target float64, got pgDBOSRates) figure.Figure {
	return figure.Figure{
		Goal: 9, Disk: "as is", Unit: "x", What: "pgstore ÷ DBOS, 64 callers: " + what,
		Samples: ratios(got.Ours, got.Theirs), Target: figure.AtLeast(target),
		Aside: fmt.Sprintf("%s ÷ %s a second. DBOS, in one Node process, also journals the workflow's step and resumes it "+
			"after a crash, which a store does not.", figure.Short(figure.Median(got.Ours)),
			figure.Short(figure.Median(got.Theirs))),
	}
}

type pgDBOSAsked struct {
	Store    pgAsked
	Dir, URL string
	Rounds   int
	Round    time.Duration
}

type pgDBOSFound struct{ Fresh, Replay pgDBOSRates }

// pgDBOSRates holds pairs, or replays, per second, one value per round.
type pgDBOSRates struct{ Ours, Theirs []float64 }

func pgDBOSRole(ctx context.Context, text json.RawMessage, _ func(any) error) (_ any, err error) {
	var in pgDBOSAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	store, err := in.Store.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	peer, err := dbos.Start(in.Dir, in.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, peer.Stop()) }()
	keep := func() retrysafe.Retention { return retrysafe.Retention{} }
	if err := fill(ctx, store, 0, replayed, keep); err != nil {
		return nil, err
	}
	result := pairResult()
	var next atomic.Int64
	var found pgDBOSFound
	sides := []struct {
		rates        *pgDBOSRates
		ours, theirs func() (float64, error)
	}{
		{
			&found.Fresh,
			oursFor(in.Round, func() error { return storePair(ctx, store, result, keep()) }),
			func() (float64, error) { return peer.Fresh(dbosCallers, in.Round) },
		},
		{
			&found.Replay,
			oursFor(in.Round, func() error { return replayOf(ctx, store, next.Add(1)%replayed) }),
			func() (float64, error) { return peer.Replay(dbosCallers, replayed, in.Round) },
		},
	}
	for _, side := range sides {
		if err := side.rates.compare(in.Rounds, side.ours, side.theirs); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func oursFor(d time.Duration, f func() error) func() (float64, error) {
	return func() (float64, error) {
		n, took, err := rate(dbosCallers, d, f)
		return perSecond(n, took), err
	}
}

// compare runs both sides in turn; the first round is a warm-up.
func (r *pgDBOSRates) compare(rounds int, ours, theirs func() (float64, error)) error {
	for i := range 1 + rounds {
		a, err := ours()
		if err != nil {
			return err
		}
		b, err := theirs()
		if err != nil {
			return err
		}
		if i > 0 {
			r.Ours, r.Theirs = append(r.Ours, a), append(r.Theirs, b)
		}
	}
	return nil
}
