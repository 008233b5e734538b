package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func request(path, tenant string) exampletest.Request {
	return exampletest.Request{
		Path:   path,
		Header: http.Header{"X-Tenant": {tenant}},
		Body:   `{"amount":4200}`,
		Other:  `{"amount":1}`,
	}
}

// Seen to fail with safe taken out of the route, and Use out of the group.
func TestOnce(t *testing.T) {
	for _, path := range []string{"/payments", "/payments/17/refunds"} {
		guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
		b := new(bank)
		exampletest.Once(t, handler(guard, b), request(path, "acme"), b.charges.Load)
	}
}

// Seen to fail with ScopeNone: the second tenant then gets the first one's answer.
func TestTenantsDoNotMeet(t *testing.T) {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	b := new(bank)
	server := httptest.NewServer(handler(guard, b))
	defer server.Close()
	for _, tenant := range []string{"acme", "globex"} {
		q := request("/payments", tenant)
		if a := exampletest.Post(t, server.URL, "k", q.Body, q); a.Replayed() {
			t.Errorf("%s got another tenant's answer: %s", tenant, a.Body)
		}
	}
	if n := b.charges.Load(); n != 2 {
		t.Errorf("%d charges of two tenants, want 2", n)
	}
}
