package httpclient

import (
	"sync"

	"github.com/retrysafe/retrysafe/internal/retry"
)

// RetryBudget keeps retries from piling up on a server that is failing, as gRPC's retry throttling does (gRFC A6): each
// failed attempt takes a token, each answer gives back a part of one, and while half of the tokens or fewer are left
// there are no retries.
type RetryBudget struct {
	// Tokens at the beginning and at most. Default 10; negative: retries are not bounded.
	Tokens float64
	// PerSuccess is what an answer gives back. Default 0.1.
	PerSuccess float64
}

func (b RetryBudget) withDefaults() RetryBudget {
	if b.Tokens == 0 {
		b.Tokens = 10
	}
	if b.PerSuccess == 0 {
		b.PerSuccess = 0.1
	}
	return b
}

// budgets are those of the origins that have failed, and have not made up for it.
type budgets struct {
	limit RetryBudget

	mu  sync.Mutex
	all map[string]*retry.Budget
}

// maxBudgets is how many origins have one. One more, and another origin begins anew.
const maxBudgets = 10_000

// failed takes a token, and reports whether a retry is allowed.
func (b *budgets) failed(origin string) bool {
	if b.limit.Tokens < 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	budget := b.all[origin]
	if budget == nil {
		b.makeRoom()
		budget = retry.NewBudget(b.limit.Tokens, b.limit.PerSuccess)
		b.all[origin] = budget
	}
	return budget.Failed()
}

// makeRoom drops any one budget if there are as many as may be.
func (b *budgets) makeRoom() {
	if len(b.all) < maxBudgets {
		return
	}
	for origin := range b.all {
		delete(b.all, origin)
		return
	}
}

// succeeded gives back a part of a token. A budget that has all its tokens again is as good as none.
func (b *budgets) succeeded(origin string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if budget := b.all[origin]; budget != nil && budget.Succeeded() {
		delete(b.all, origin)
	}
}
