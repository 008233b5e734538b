package otelsafe

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
	"go.opentelemetry.io/otel/metric"
)

// Instrument returns a Store that measures how long each call to s takes, by outcome, and how long keys are waited for
// if s is a retrysafe.Watcher. It is a Watcher, a Sweeper or an Inspector exactly if s is one. Other methods of s, such
// as those of a retrysafe.Purger, a Finder or a SightingKeeper, are reached by its method Unwrap. It returns the error
// of the MeterProvider if it cannot create an instrument.
func Instrument(s retrysafe.Store, o Options) (retrysafe.Store, error) {
	m := meterOf(o.MeterProvider)
	measured := &store{Store: s, duration: m.histogram("retrysafe.store.call.duration",
		"How long calls to the store took, by outcome.", storeBounds())}
	waits := m.histogram("retrysafe.wait.duration",
		"How long keys were waited for: once for each key, even if many requests of this process waited.", workBounds())
	if m.err != nil {
		return nil, m.err
	}
	measured.claims = outcomesOf("claim", "acquired", "in_flight", "done", "abandoned")
	measured.extends = outcomesOf("extend", succeeded)
	measured.checkpoints = outcomesOf("checkpoint", succeeded)
	measured.completes = outcomesOf("complete", succeeded)
	measured.releases = outcomesOf("release", succeeded)
	return measured.as(s, waits), nil
}

const succeeded = "succeeded"

// store measures the calls of a Store.
type store struct {
	retrysafe.Store
	duration                                          metric.Float64Histogram
	claims, extends, checkpoints, completes, releases map[string]labels
}

// Unwrap returns the measured store, which a Guard needs to recognise it in a transaction of that store.
func (s *store) Unwrap() retrysafe.Store { return s.Store }

// outcomesOf returns the attributes of a call's measurements by outcome.
func outcomesOf(call string, outcomes ...string) map[string]labels {
	m := map[string]labels{}
	for _, outcome := range append(outcomes, leaseLost, "full", "canceled", "timeout", "error") {
		m[outcome] = label(attrCall.String(call), attrOutcome.String(outcome))
	}
	return m
}

// as returns a Store with the optional interfaces of base.
func (s *store) as(base retrysafe.Store, duration metric.Float64Histogram) retrysafe.Store {
	sweeper, sweeps := base.(retrysafe.Sweeper)
	watcher, watches := base.(retrysafe.Watcher)
	inspector, inspects := base.(retrysafe.Inspector)
	w := waits{watcher, duration}
	switch {
	case sweeps && watches && inspects:
		return struct {
			*store
			retrysafe.Sweeper
			waits
			retrysafe.Inspector
		}{s, sweeper, w, inspector}
	case sweeps && watches:
		return struct {
			*store
			retrysafe.Sweeper
			waits
		}{s, sweeper, w}
	case sweeps && inspects:
		return struct {
			*store
			retrysafe.Sweeper
			retrysafe.Inspector
		}{s, sweeper, inspector}
	case watches && inspects:
		return struct {
			*store
			waits
			retrysafe.Inspector
		}{s, w, inspector}
	case sweeps:
		return struct {
			*store
			retrysafe.Sweeper
		}{s, sweeper}
	case watches:
		return struct {
			*store
			waits
		}{s, w}
	case inspects:
		return struct {
			*store
			retrysafe.Inspector
		}{s, inspector}
	}
	return s
}

// Claim implements retrysafe.Store.
func (s *store) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	began := time.Now()
	c, err := s.Store.Claim(ctx, p)
	outcome := claimOutcome(c.Verdict)
	if err != nil {
		outcome = errorOutcome(err)
	}
	s.record(ctx, began, s.claims[outcome])
	return c, err
}

// Extend implements retrysafe.Store.
func (s *store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	began := time.Now()
	err := s.Store.Extend(ctx, l, d)
	s.record(ctx, began, s.extends[errorOutcome(err)])
	return err
}

// Checkpoint implements retrysafe.Store.
func (s *store) Checkpoint(ctx context.Context, l retrysafe.Lease, r retrysafe.StepResult) error {
	began := time.Now()
	err := s.Store.Checkpoint(ctx, l, r)
	s.record(ctx, began, s.checkpoints[errorOutcome(err)])
	return err
}

// Complete implements retrysafe.Store.
func (s *store) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	began := time.Now()
	err := s.Store.Complete(ctx, l, r, keep)
	s.record(ctx, began, s.completes[errorOutcome(err)])
	return err
}

// Release implements retrysafe.Store.
func (s *store) Release(ctx context.Context, l retrysafe.Lease) error {
	began := time.Now()
	err := s.Store.Release(ctx, l)
	s.record(ctx, began, s.releases[errorOutcome(err)])
	return err
}

func (s *store) record(ctx context.Context, began time.Time, l labels) {
	s.duration.Record(ctx, time.Since(began).Seconds(), l.record...)
}

func claimOutcome(v retrysafe.Verdict) string {
	switch v {
	case retrysafe.Acquired:
		return "acquired"
	case retrysafe.InFlight:
		return "in_flight"
	case retrysafe.Done:
		return "done"
	case retrysafe.Abandoned:
		return "abandoned"
	}
	return "error" // an invalid verdict
}

func errorOutcome(err error) string {
	switch {
	case err == nil:
		return succeeded
	case errors.Is(err, retrysafe.ErrLeaseLost):
		return leaseLost
	case errors.Is(err, retrysafe.ErrStoreFull):
		return "full"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "error"
}

// waits measures how long keys are watched, which is how long requests wait for them.
type waits struct {
	watcher  retrysafe.Watcher
	duration metric.Float64Histogram
}

// Watch implements retrysafe.Watcher.
func (w waits) Watch(ctx context.Context, k retrysafe.Key) (<-chan struct{}, func(), error) {
	began := time.Now()
	changed, stop, err := w.watcher.Watch(ctx, k)
	if err != nil {
		return nil, nil, err
	}
	return changed, func() {
		stop()
		w.duration.Record(ctx, time.Since(began).Seconds())
	}, nil
}
