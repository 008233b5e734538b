package faults

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// Store is a store with a boundary before and after each durable write:
//
//	NAME-before-claim       NAME-claimed
//	NAME-STEP-answered      NAME-STEP-saved
//	NAME-before-completion  NAME-completed
type Store struct {
	*sqlitestore.Store
	Name string
}

// Claim implements retrysafe.Store. Only a claim that acquired the key is a boundary.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	Boundary(s.Name + "-before-claim")
	c, err := s.Store.Claim(ctx, p)
	if err == nil && c.Verdict == retrysafe.Acquired {
		Boundary(s.Name + "-claimed")
	}
	return c, err
}

var errHeld = errors.New("faults: heartbeats fail while a call is held")

// Extend implements retrysafe.Store. It fails while a call is held, so that its lease expires.
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	if held() {
		return errHeld
	}
	return s.Store.Extend(ctx, l, d)
}

// Checkpoint implements retrysafe.Store.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	Boundary(s.Name + "-" + step.Name + "-answered")
	err := s.Store.Checkpoint(ctx, l, step)
	if err == nil {
		Boundary(s.Name + "-" + step.Name + "-saved")
	}
	return err
}

// Complete implements retrysafe.Store.
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	Boundary(s.Name + "-before-completion")
	err := s.Store.Complete(ctx, l, r, keep)
	if err == nil {
		Boundary(s.Name + "-completed")
	}
	return err
}
