package httpkey

import "net/http"

// IsSafe reports whether a method is safe: it asks for no effect, so that a request may be repeated without a key. Safe
// are GET, HEAD, OPTIONS and TRACE (RFC 9110, section 9.2.1) and QUERY (draft-ietf-httpbis-safe-method-w-body). The
// empty method is safe, because net/http takes it for GET. CONNECT is not.
func IsSafe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "QUERY":
		return true
	}
	return false
}
