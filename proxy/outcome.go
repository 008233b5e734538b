package proxy

import (
	"mime"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe/fingerprint"
)

// saysNothingHappened reports whether an answer whose status does not tell, because a gateway between proxy and API sends
// it too, says itself that the operation did not run. body is what was fetched of it.
func saysNothingHappened(res *http.Response, body []byte) bool {
	switch res.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusRequestTimeout:
	default:
		return false
	}
	status, _, _ := strings.Cut(res.Header.Get("Idempotency-Status"), ";")
	if strings.TrimSpace(status) == "released" {
		return true
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind == "application/problem+json" {
		if executed, ok, err := fingerprint.JSONField(body, "/executed"); ok && err == nil && executed == "no" {
			return true
		}
	}
	return false
}
