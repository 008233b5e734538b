package retrysafe

import (
	"context"
	"encoding/json"
	"fmt"
)

// Do is Guard.Do for work that returns a value. The value is saved as JSON, and what Do returns has been through it, so
// that the first caller and every retry get the same.
//
// Errors are those of Guard.Do, and ErrNotReplayable if the work has run but its value was not kept: it was larger than
// Policy.MaxResult, or cannot be encoded. The caller for whom the work ran gets the value itself then.
func Do[T any](
	ctx context.Context, g *Guard, r Request, work func(ctx context.Context, a *Attempt) (T, error),
) (T, error) {
	var fresh T
	out, err := g.Do(ctx, r, func(ctx context.Context, a *Attempt) (Result, error) {
		var err error
		if fresh, err = work(ctx, a); err != nil {
			return Result{}, err
		}
		body, err := json.Marshal(fresh)
		if err != nil { // the work is done all the same
			return Result{Omitted: true}, nil
		}
		return Result{Body: body}, nil
	})
	var value T
	switch {
	case err != nil:
		return value, err
	case out.Result.Omitted && out.Replayed:
		return value, fmt.Errorf("key %s: %w", r.Key, ErrNotReplayable)
	case out.Result.Omitted:
		return fresh, nil
	}
	if err := json.Unmarshal(out.Result.Body, &value); err != nil {
		return value, fmt.Errorf("retrysafe: decode the result of key %s: %w", r.Key, err)
	}
	return value, nil
}
