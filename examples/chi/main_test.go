package main

import (
	"testing"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
)

func request(path, tenant string) exampletest.Request {
	q := exampletest.Payment("X-Tenant", tenant)
	q.Path = path
	return q
}

// Seen to fail with safe taken out of the route, and Use out of the group.
func TestOnce(t *testing.T) {
	for _, path := range []string{"/payments", "/payments/17/refunds"} {
		b := new(bank)
		exampletest.Serve(t, handler(exampletest.NewGuard(), b), request(path, "acme")).Once(b.charges.Load)
	}
}

// Seen to fail with ScopeNone: the second tenant then gets the first one's answer.
func TestTenantsDoNotMeet(t *testing.T) {
	b := new(bank)
	h := handler(exampletest.NewGuard(), b)
	for _, tenant := range []string{"acme", "globex"} {
		if a := exampletest.Serve(t, h, request("/payments", tenant)).Post("k", `{"amount":1}`); a.Replayed() {
			t.Errorf("%s got another tenant's answer: %s", tenant, a.Body)
		}
	}
	if n := b.charges.Load(); n != 2 {
		t.Errorf("%d charges of two tenants, want 2", n)
	}
}
