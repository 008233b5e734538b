package client

import (
	"fmt"
	"testing"
)

// Seen to fail with the deletion taken out of succeeded, and with makeRoom taken out of failed.
func TestBudgetsOfOriginsAreNotKeptForGood(t *testing.T) {
	b := budgets{limit: RetryBudget{Tokens: 10, PerSuccess: 1}, left: map[string]float64{}}
	origin := func(i int) string { return fmt.Sprintf("https://%d.example", i) }
	for i := range 100 {
		b.failed(origin(i))
	}
	if n := len(b.left); n != 100 {
		t.Errorf("%d budgets of 100 origins that fail", n)
	}
	for i := range 99 {
		b.succeeded(origin(i))
	}
	if n := len(b.left); n != 1 {
		t.Errorf("%d budgets, and one origin that still fails", n)
	}
	for i := range 20_000 {
		b.failed(origin(i))
	}
	if n := len(b.left); n > maxBudgets {
		t.Errorf("%d budgets", n)
	}
}

func TestBudget(t *testing.T) {
	b := budgets{limit: RetryBudget{Tokens: 4, PerSuccess: 0.5}, left: map[string]float64{}}
	if !b.failed("a") || b.failed("a") {
		t.Error("of four tokens, retries end when two are left")
	}
	b.succeeded("a")
	b.succeeded("a")
	b.succeeded("a") // 3.5
	if !b.failed("a") {
		t.Error("successes give nothing back")
	}
	free := budgets{limit: RetryBudget{Tokens: -1, PerSuccess: 0.1}, left: map[string]float64{}}
	for range 100 {
		if !free.failed("a") {
			t.Fatal("negative tokens bound retries")
		}
	}
}
