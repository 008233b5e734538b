// Package retry has the waits of clients and consumers that try again: backoff with jitter, and what a server asks for.
package retry

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// Backoff returns how long to wait after the n-th attempt, counted from 1: at random between nothing and first, which
// doubles with each attempt up to most ("full jitter": clients that failed together do not come back together).
func Backoff(n int, first, most time.Duration) time.Duration {
	if first <= 0 {
		return 0
	}
	limit := first
	for range n - 1 {
		if limit >= most/2 {
			limit = most
			break
		}
		limit *= 2
	}
	return rand.N(min(limit, most, math.MaxInt64-1) + 1)
}

// Wait waits, unless ctx ends before: then it returns its error.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
