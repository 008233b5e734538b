package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func request() exampletest.Request {
	return exampletest.Request{
		Path:   "/checkouts",
		Header: http.Header{"Authorization": {"Bearer alice"}},
		Body:   `{"amount":4200}`,
		Other:  `{"amount":1}`,
	}
}

// open returns a shop and its services.
func open(t *testing.T) (http.Handler, *backends) {
	services := openBackends()
	t.Cleanup(services.close)
	return services.shop().handler(retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})), services
}

// Seen to fail with Rerun taken out, with plain calls instead of steps (stock and bank are called again), and with a
// new key for each call (the carrier takes two parcels).
func TestAttemptThatBrokeOffIsFinished(t *testing.T) {
	handler, services := open(t)
	server := httptest.NewServer(handler)
	defer server.Close()
	q := request()
	first := exampletest.Post(t, server.URL, "k", q.Body, q)
	if first.Status != http.StatusBadGateway || first.Header.Get("Idempotency-Status") != "unknown; retry" {
		t.Errorf("with the carrier gone: %d %v", first.Status, first.Header)
	}
	second := exampletest.Post(t, server.URL, "k", q.Body, q)
	if second.Status != http.StatusCreated || second.Replayed() {
		t.Errorf("the retry got %d %s, want to finish the order", second.Status, second.Body)
	}
	third := exampletest.Post(t, server.URL, "k", q.Body, q)
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
	handler, services := open(t)
	server := httptest.NewServer(handler)
	defer server.Close()
	q := request()
	exampletest.Post(t, server.URL, "the carrier hangs up", q.Body, q)
	exampletest.Once(t, handler, q, services.bank.made.Load)
}

// Seen to fail with errDeclined taken out of checkout: the retry calls the bank again.
func TestDeclinedForGood(t *testing.T) {
	handler, services := open(t)
	server := httptest.NewServer(handler)
	defer server.Close()
	for range 2 {
		a := exampletest.Post(t, server.URL, "k", `{"amount":100001}`, request())
		if a.Status != http.StatusPaymentRequired {
			t.Errorf("got %d %s, want 402", a.Status, a.Body)
		}
	}
	if n := services.bank.asked.Load(); n != 1 {
		t.Errorf("the bank was called %d times, want 1", n)
	}
}
