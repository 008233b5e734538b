package httpsafe

import (
	"net/http"
	"testing"
)

// Seen to fail with the look at capital letters, at small letters, and at the empty name taken out of isPlain.
func TestPlainNamesAreCanonical(t *testing.T) {
	for name, want := range map[string]bool{
		"Content-Type": true, "X-1st-Header": true, "Www-Authenticate": true, "Etag": true, "X--Y": true,
		"content-type": false, "Content-type": false, "ETag": false, "WWW-Authenticate": false,
		"": false, "Foo Bar": false, "Foo:": false, "X_y": false, "Ünïcode": false, "A\n": false,
	} {
		if got := isPlain(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
		if isPlain(name) && (!isFieldName(name) || http.CanonicalHeaderKey(name) != name) {
			t.Errorf("%q: plain, but not a canonical field name", name)
		}
	}
}
