package client

import "sync"

// RetryBudget keeps retries from piling up on a server that is failing, as gRPC's retry throttling does (gRFC A6): each
// failed attempt takes a token, each answer returns a part of one, and while half of the tokens or fewer are left there
// are no retries.
type RetryBudget struct {
	// Tokens at the beginning and at most. Default 10; negative: retries are not bounded.
	Tokens float64
	// PerSuccess is the part of a token that an answer returns. Default 0.1.
	PerSuccess float64
}

// budgets holds the tokens left for each server that has failed and has not recovered all its tokens since.
type budgets struct {
	limit RetryBudget

	mu   sync.Mutex
	left map[string]float64 // by origin; none: all
}

// maxBudgets is how many servers are remembered. For one more, another server gets all its tokens back.
const maxBudgets = 10_000

// failed takes a token, and reports whether a retry is allowed.
func (b *budgets) failed(origin string) bool {
	if b.limit.Tokens < 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	left, known := b.left[origin]
	if !known {
		left = b.limit.Tokens
		b.makeRoom()
	}
	left = max(left-1, 0)
	b.left[origin] = left
	return left > b.limit.Tokens/2
}

// makeRoom forgets any one server if there are as many as may be.
func (b *budgets) makeRoom() {
	for origin := range b.left {
		if len(b.left) >= maxBudgets {
			delete(b.left, origin)
		}
		return
	}
}

// succeeded returns a part of a token. A server that has all its tokens again is forgotten.
func (b *budgets) succeeded(origin string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left, known := b.left[origin]
	if left += b.limit.PerSuccess; left >= b.limit.Tokens {
		delete(b.left, origin)
	} else if known {
		b.left[origin] = left
	}
}
