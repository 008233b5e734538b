// Package retry is what clients have in common that send again: how long they wait, and when they leave a failing server alone.
package retry

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// Backoff returns how long to wait after the n-th attempt, counted from 1: at random between nothing and first, which doubles with each
// attempt up to most ("full jitter": clients that failed together do not come back together).
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

// Budget keeps retries from piling up on a server that is failing, as gRPC's retry throttling does (gRFC A6): each failed attempt takes a
// token, each answer gives back a part of one, and while half of the tokens or fewer are left there are no retries. It is safe for
// concurrent use.
type Budget struct {
	tokens, perSuccess float64

	mu   sync.Mutex
	left float64
}

// NewBudget returns a budget that has all its tokens. Negative tokens: retries are not bounded.
func NewBudget(tokens, perSuccess float64) *Budget {
	return &Budget{tokens: tokens, perSuccess: perSuccess, left: tokens}
}

// Failed takes a token, and reports whether a retry is allowed.
func (b *Budget) Failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = max(b.left-1, min(b.tokens, 0))
	return b.tokens < 0 || b.left > b.tokens/2
}

// Succeeded gives back a part of a token, and reports whether all are there again.
func (b *Budget) Succeeded() (full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+b.perSuccess, b.tokens)
	return b.left == b.tokens
}
