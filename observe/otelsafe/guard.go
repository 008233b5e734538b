package otelsafe

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe"
)

// NewGuard returns a Guard that keeps its records in s, as retrysafe.New does, with all traces and metrics of the Guard
// and of its store. It is New, Instrument, WatchStore and WatchGuard in one call; a store that is no
// retrysafe.Inspector, or that would read every record for each reading (retrysafe.FullScanner) and is no
// retrysafe.Sizer, is not watched. An Observer in guarded is told of each event too. Call stop after the Guard's
// Shutdown and before s is closed.
//
// NewGuard returns the error of the MeterProvider if it cannot create an instrument. The policy must be valid, as for
// retrysafe.New. Call the four functions instead to set WatchOptions.
func NewGuard(s retrysafe.Store, guarded retrysafe.Options, o Options) (g *retrysafe.Guard, stop func() error, err error) {
	observer, err := New(o)
	if err != nil {
		return nil, nil, err
	}
	measured, err := Instrument(s, o)
	if err != nil {
		return nil, nil, err
	}
	if also := guarded.Observer; also != nil {
		guarded.Observer = retrysafe.ObserverFunc(func(ctx context.Context, e retrysafe.Event) {
			observer.Observe(ctx, e)
			also.Observe(ctx, e)
		})
	} else {
		guarded.Observer = observer
	}
	g = retrysafe.New(measured, guarded)
	unwatchStore := func() error { return nil }
	_, sizes := retrysafe.As[retrysafe.Sizer](s)
	if i, ok := s.(retrysafe.Inspector); ok && (sizes || !scansFully(s)) {
		if unwatchStore, err = WatchStore(i, WatchOptions{MeterProvider: o.MeterProvider}); err != nil {
			return nil, nil, err
		}
	}
	unwatchGuard, err := WatchGuard(g, o)
	if err != nil {
		return nil, nil, errors.Join(err, unwatchStore())
	}
	return g, func() error { return errors.Join(unwatchGuard(), unwatchStore()) }, nil
}
