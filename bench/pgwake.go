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

// Goal 9, fourth part: how soon a waiter in another process learns that the work has ended.

func pgWake(ctx context.Context, r *run, s *pgServer) error {
	r.progress("waiters")
	store, err := s.store(ctx, "wake")
	if err != nil {
		return err
	}
	got, err := callRole[pgWakeFound](ctx, r.disks()[0], "", "", "pgwake",
		pgWakeAsked{Store: store, Times: r.rounds(500, 100)})
	if err != nil {
		return err
	}
	r.add(ctx, figure.Figure{
		Goal: 9, Disk: "as is", Unit: "ms", What: "completion to wake-up in another store, p50",
		Samples: got.Woken,
		Aside: fmt.Sprintf("aim: at most 5, no target, since it depends on CPU and disk; from the call of Complete "+
			"on, its commit included; p99 %s ms; with the result in hand p50 %s ms",
			figure.Short(figure.Percentile(got.Woken, 0.99)), figure.Short(figure.Median(got.Answered))),
	})
	return nil
}

type pgWakeAsked struct {
	Store pgAsked
	Times int
}

// pgWakeFound holds, for each repetition, the time until the waiter was woken, and until it had the result, in
// milliseconds from the call of Complete.
type pgWakeFound struct{ Woken, Answered []float64 }

// pgWakeRole opens two stores that share only the database.
func pgWakeRole(ctx context.Context, text json.RawMessage, _ func(any) error) (_ any, err error) {
	var in pgWakeAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	works, err := in.Store.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, works.close()) }()
	waits, err := in.Store.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, waits.close()) }()
	const warm = 5
	var found pgWakeFound
	for i := range warm + in.Times {
		woken, answered, err := wakeOnce(ctx, works, waits)
		if err != nil {
			return nil, err
		}
		if i >= warm {
			found.Woken, found.Answered = append(found.Woken, woken), append(found.Answered, answered)
		}
	}
	return found, nil
}

// wakePatience is longer than any wake-up that is worth measuring.
const wakePatience = 10 * time.Second

func wakeOnce(ctx context.Context, works, waits pgOpened) (woken, answered float64, err error) {
	p := freshParams()
	c, err := works.Claim(ctx, p)
	if err != nil {
		return 0, 0, err
	}
	changed, stop, err := waits.Watch(ctx, p.Key)
	if err != nil {
		return 0, 0, err
	}
	defer stop()
	select {
	case <-changed: // the first signal, sent when the listener started
	default:
	}
	failed := make(chan error, 1)
	began := time.Now()
	go func() { failed <- works.Complete(ctx, c.Lease, pairResult(), retrysafe.Retention{}) }()
	select {
	case <-changed:
		woken = millis(time.Since(began).Nanoseconds())
	case <-time.After(wakePatience):
		return 0, 0, fmt.Errorf("no wake-up within %v", wakePatience)
	}
	p.Owner = retrysafe.NewOwner()
	again, err := waits.Claim(ctx, p)
	answered = millis(time.Since(began).Nanoseconds())
	if err == nil && again.Verdict != retrysafe.Done {
		err = fmt.Errorf("woken, it finds the key %v", again.Verdict)
	}
	return woken, answered, errors.Join(err, <-failed)
}
