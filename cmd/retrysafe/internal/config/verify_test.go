package config

import (
	"net/http/httptest"
	"testing"
)

// Requests that are signed have their sender as the caller, and no Authorization header. Seen to fail with scopeFunc left
// out of options.
func TestSignedRequestsHaveTheirSenderAsCaller(t *testing.T) {
	t.Setenv("S", "a secret of some length")
	c := mustParse(t, "upstream: http://x\nroutes:\n  POST /a: {verify: {github: {secret: {env: S}}}}\n  POST /b: {}\n")
	if err := c.FillIn(); err != nil {
		t.Fatal(err)
	}
	o, err := c.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range o.Routes {
		if isSigned := r.HTTP.VerifyFunc != nil; isSigned != (r.Scope != nil) {
			t.Errorf("%s: signed %v, with a scope of its own %v", r.Pattern, isSigned, r.Scope != nil)
		}
		if r.Scope != nil {
			if caller, err := r.Scope(httptest.NewRequest("POST", "/a", nil)); caller != "signed:github" || err != nil {
				t.Errorf("got %q, %v", caller, err)
			}
		}
	}
}
