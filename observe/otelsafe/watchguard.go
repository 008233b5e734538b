package otelsafe

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"go.opentelemetry.io/otel/metric"
)

// WatchGuard exports, when metrics are collected, how many ends of attempts this process has failed to save so far: see
// retrysafe.Guard.Unsaved. Guards made by With and WithObserver share them: watch one. stop unregisters the metric.
// WatchGuard returns the error of the MeterProvider if it cannot create the instrument.
func WatchGuard(g *retrysafe.Guard, o Options) (stop func() error, err error) {
	m := meterOf(o.MeterProvider)
	unsaved := m.observed("retrysafe.attempts.unsaved", "{attempt}",
		"Attempts that have ended, and whose end this process has failed to save so far.")
	if m.err != nil {
		return nil, m.err
	}
	registration, err := m.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		ends, _ := g.Unsaved()
		to.ObserveInt64(unsaved, int64(ends))
		return nil
	}, unsaved)
	if err != nil {
		return nil, fmt.Errorf("otelsafe: watch the guard: %w", err)
	}
	return registration.Unregister, nil
}
