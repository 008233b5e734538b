//go:build linux

package matrix

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe"
)

// planted is a store that is broken on purpose, so that the judge has something to see.
type planted struct {
	retrysafe.Store
	fault string
}

// Unwrap finds the store for its transactions.
func (p planted) Unwrap() retrysafe.Store { return p.Store }

// The planted faults.
const (
	forgetsFences   = "forgets fences"   // a lost lease is answered as a good one
	freesAbandoned  = "frees abandoned"  // an abandoned key is free
	runsBeside      = "runs beside"      // a lease that runs counts as abandoned
	answersAnother  = "answers another"  // a replay has another answer
	forgetsSteps    = "forgets steps"    // a take-over is not given the saved steps
	forgetsComplete = "forgets complete" // a completion is acknowledged, and not saved
)

// Claim implements retrysafe.Store.
func (p planted) Claim(ctx context.Context, params retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if params.Key.Scope != "matrix" {
		return p.Store.Claim(ctx, params)
	}
	if p.fault == runsBeside {
		params.Lease /= 10
	}
	c, err := p.Store.Claim(ctx, params)
	switch {
	case err != nil:
	case p.fault == freesAbandoned && c.Verdict == retrysafe.Abandoned:
		params.TakeOver = true
		c, err = p.Store.Claim(ctx, params)
	case p.fault == answersAnother && c.Verdict == retrysafe.Done:
		c.Record.Result.Body = []byte("another")
	case p.fault == forgetsSteps:
		c.Record.Steps = nil
	}
	return c, err
}

// Complete implements retrysafe.Store.
func (p planted) Complete(
	ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention,
) error {
	switch p.fault {
	case forgetsComplete:
		return p.Extend(ctx, l, 0)
	case forgetsFences:
		if err := p.Store.Complete(ctx, l, r, keep); !errors.Is(err, retrysafe.ErrLeaseLost) {
			return err
		}
		return nil
	}
	return p.Store.Complete(ctx, l, r, keep)
}
