package dashboard

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

// storeTimeout bounds each call of the store.
const storeTimeout = 5 * time.Second

// timed gives each call of Keys a timeout.
type timed struct{ keys.Keys }

// List implements keys.Keys.
func (t timed) List(ctx context.Context, q keys.Query) (keys.Page, error) {
	return within(ctx, q, t.Keys.List)
}

// Show implements keys.Keys.
func (t timed) Show(ctx context.Context, l keys.Look) ([]keys.Record, error) {
	return within(ctx, l, t.Keys.Show)
}

// Resolve implements keys.Keys.
func (t timed) Resolve(ctx context.Context, d keys.Decision) (keys.Record, error) {
	return within(ctx, d, t.Keys.Resolve)
}

// Purge implements keys.Keys.
func (t timed) Purge(ctx context.Context, d keys.Decision) (keys.Purged, error) {
	return within(ctx, d, t.Keys.Purge)
}

// Reopen implements keys.Keys.
func (t timed) Reopen(ctx context.Context, d keys.Decision) (keys.Record, error) {
	return within(ctx, d, t.Keys.Reopen)
}

// Measure implements keys.Keys.
func (t timed) Measure(ctx context.Context, how keys.Measure) (keys.Measured, error) {
	return within(ctx, how, t.Keys.Measure)
}

func within[A, R any](ctx context.Context, argument A, do func(context.Context, A) (R, error)) (R, error) {
	ctx, stop := context.WithTimeout(ctx, storeTimeout)
	defer stop()
	return do(ctx, argument)
}
