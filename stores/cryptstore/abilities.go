package cryptstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// as returns s with the methods that its inner store has beyond those of every Store.
func (s *Store) as() retrysafe.Store {
	sweeper, sweeps := retrysafe.As[retrysafe.Sweeper](s.inner)
	watcher, watches := retrysafe.As[retrysafe.Watcher](s.inner)
	inspector, inspects := retrysafe.As[retrysafe.Inspector](s.inner)
	in := &inspected{s, inspector}
	switch {
	case sweeps && watches && inspects:
		return struct {
			*inspected
			retrysafe.Sweeper
			retrysafe.Watcher
		}{in, sweeper, watcher}
	case sweeps && inspects:
		return struct {
			*inspected
			retrysafe.Sweeper
		}{in, sweeper}
	case watches && inspects:
		return struct {
			*inspected
			retrysafe.Watcher
		}{in, watcher}
	case inspects:
		return in
	case sweeps && watches:
		return struct {
			*Store
			retrysafe.Sweeper
			retrysafe.Watcher
		}{s, sweeper, watcher}
	case sweeps:
		return struct {
			*Store
			retrysafe.Sweeper
		}{s, sweeper}
	case watches:
		return struct {
			*Store
			retrysafe.Watcher
		}{s, watcher}
	}
	return s
}

// inspected is a Store whose inner store can be read and listed. It is no LeaseEnder, which few stores are: a Guard
// finds that one by Unwrap.
type inspected struct {
	*Store
	inspector retrysafe.Inspector
}

var (
	_ retrysafe.Inspector    = (*inspected)(nil)
	_ retrysafe.FullScanner  = (*inspected)(nil)
	_ retrysafe.Walker       = (*inspected)(nil)
	_ retrysafe.Purger       = (*inspected)(nil)
	_ retrysafe.RiskReporter = (*inspected)(nil)
)

// Inspect implements [retrysafe.Inspector]. If content cannot be decrypted, it returns the records without that
// content, and an error that wraps [retrysafe.ErrUnreadable].
func (s *inspected) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	found, err := s.inspector.Inspect(ctx, d)
	if err != nil {
		return found, err
	}
	var all []error
	for i := range found {
		all = append(all, s.open(&found[i]))
	}
	if err := errors.Join(all...); err != nil {
		return found, fmt.Errorf("inspect %s: %w", d, err)
	}
	return found, nil
}

// List implements [retrysafe.Inspector].
func (s *inspected) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	return s.inspector.List(ctx, p)
}

// Stats implements [retrysafe.Inspector].
func (s *inspected) Stats(ctx context.Context) (retrysafe.Stats, error) {
	return s.inspector.Stats(ctx)
}

// ScansFully implements [retrysafe.FullScanner].
func (s *inspected) ScansFully() bool {
	scanner, ok := retrysafe.As[retrysafe.FullScanner](s.inner)
	return ok && scanner.ScansFully()
}

// Walk implements [retrysafe.Walker].
func (s *inspected) Walk(ctx context.Context, visit func(retrysafe.Record) error) error {
	return retrysafe.Walk(ctx, s.inspector, visit)
}

// Purge implements [retrysafe.Purger]. It needs no key: the step, which is one of the trail, stays as it is.
func (s *inspected) Purge(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	purger, ok := retrysafe.As[retrysafe.Purger](s.inner)
	if !ok {
		return fmt.Errorf("purge %s: the encrypted store, a %T, is not a retrysafe.Purger: %w", d, s.inner,
			errors.ErrUnsupported)
	}
	return purger.Purge(ctx, d, fence, step)
}

// Risks implements [retrysafe.RiskReporter]. A store that reports no risks has none that are known.
func (s *inspected) Risks(ctx context.Context) ([]retrysafe.Risk, error) {
	reporter, ok := retrysafe.As[retrysafe.RiskReporter](s.inner)
	if !ok {
		return nil, nil
	}
	return reporter.Risks(ctx)
}
