package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
)

// Goal 9, fourth part: how soon a waiter in another process learns that the work has ended.

func pgWakePart(ctx context.Context, r *run, s *pgServer) error {
	r.progress("waiters")
	store, err := s.store(ctx, "wake")
	if err != nil {
		return err
	}
	got, err := call[pgWakeFound](ctx, r.here(), pgWake{Store: store, Times: r.rounds(500, 100)})
	if err != nil {
		return err
	}
	r.addHere(ctx, figure.New("completion to wake-up in another store, p50", "ms", got.Woken...).
		Note("aim: at most 5, no target, since it depends on CPU and disk").
		Note("from the call of Complete on, its commit included").
		Note("p99 %s ms", figure.Short(got.Woken.Quantile(0.99))).
		Note("with the result in hand p50 %v ms", got.Answered))
	return nil
}

// pgWake opens two stores that share only the database.
type pgWake struct {
	Store pgPlace
	Times int
}

// pgWakeFound holds, for each repetition, the time until the waiter was woken, and until it had the result, in
// milliseconds from the call of Complete.
type pgWakeFound struct{ Woken, Answered figure.Samples }

func (in pgWake) play(ctx context.Context, _ func(any) error) (_ any, err error) {
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
	go func() { failed <- works.Complete(ctx, c.Lease, peers.Result(), retrysafe.Retention{}) }()
	select {
	case <-changed:
		woken = millis(time.Since(began))
	case <-time.After(wakePatience):
		return 0, 0, fmt.Errorf("no wake-up within %v", wakePatience)
	}
	p.Owner = retrysafe.NewOwner()
	again, err := waits.Claim(ctx, p)
	answered = millis(time.Since(began))
	if err == nil && again.Verdict != retrysafe.Done {
		err = fmt.Errorf("woken, it finds the key %v", again.Verdict)
	}
	return woken, answered, errors.Join(err, <-failed)
}
