package main

import (
	"net/http"
	"testing"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
)

// open serves a shop and its services.
func open(t *testing.T) (exampletest.API, *backends) {
	services := openBackends()
	t.Cleanup(services.close)
	q := exampletest.Payment("Authorization", "Bearer alice")
	q.Path = "/checkouts"
	return exampletest.Serve(t, services.shop().handler(exampletest.NewGuard()), q), services
}

// Seen to fail with Rerun taken out, with plain calls instead of steps (stock and bank are called again), and with a
// new key for each call (the carrier takes two parcels).
func TestAttemptThatBrokeOffIsFinished(t *testing.T) {
	shop, services := open(t)
	first := shop.Post("k", shop.Body)
	if first.Status != http.StatusBadGateway || first.Header.Get("Idempotency-Status") != "unknown; retry" {
		t.Errorf("with the carrier gone: %d %v", first.Status, first.Header)
	}
	second := shop.Post("k", shop.Body)
	if second.Status != http.StatusCreated || second.Replayed() {
		t.Errorf("the retry got %d %s, want to finish the order", second.Status, second.Body)
	}
	third := shop.Post("k", shop.Body)
	if string(third.Body) != string(second.Body) || !third.Replayed() {
		t.Errorf("the third got %d %s, want a replay of %s", third.Status, third.Body, second.Body)
	}
	for name, s := range map[string]*service{"stock": services.stock, "bank": services.bank, "carrier": services.carrier} {
		if n := s.made.Load(); n != 1 {
			t.Errorf("%s has made %d, want 1", name, n)
		}
	}
	if s, b, c := services.stock.asked.Load(), services.bank.asked.Load(), services.carrier.asked.Load(); s != 1 ||
		b != 1 || c != 2 {
		t.Errorf("stock, bank and carrier were called %d, %d and %d times, want 1, 1 and 2", s, b, c)
	}
}

// Seen to fail with safe taken out of the handler.
func TestOnce(t *testing.T) {
	shop, services := open(t)
	shop.Post("the carrier hangs up", shop.Body)
	shop.Once(services.bank.made.Load)
}

// Seen to fail with errDeclined taken out of checkout: the retry calls the bank again.
func TestDeclinedForGood(t *testing.T) {
	shop, services := open(t)
	for range 2 {
		a := shop.Post("k", `{"amount":100001}`)
		if a.Status != http.StatusPaymentRequired {
			t.Errorf("got %d %s, want 402", a.Status, a.Body)
		}
	}
	if n := services.bank.asked.Load(); n != 1 {
		t.Errorf("the bank was called %d times, want 1", n)
	}
}
