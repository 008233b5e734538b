package httpkey_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/httpkey"
)

// The answer of the middleware, the client, the proxy and its configuration.
//
// Seen to fail with QUERY, and with the empty method, taken out of IsSafe, and with CONNECT added.
func TestIsSafe(t *testing.T) {
	for method, want := range map[string]bool{
		"GET": true, "HEAD": true, "OPTIONS": true, "TRACE": true, "QUERY": true, "": true,
		"CONNECT": false, "POST": false, "PUT": false, "PATCH": false, "DELETE": false, "LINK": false,
		"get": false, "PROPFIND": false,
	} {
		if got := httpkey.IsSafe(method); got != want {
			t.Errorf("IsSafe(%q) = %t", method, got)
		}
	}
}
