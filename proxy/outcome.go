package proxy

import (
	"mime"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// What the statuses 502, 503, 504 and 408 mean for a key. A gateway between proxy and API sends them too, sometimes
// after the API got the request: Envoy answers 503 if the connection to the API ends before the answer. So they do
// not say whether the operation ran, unless the answer contains more than the status.

// isFromBetween reports whether a status may come from a gateway between the proxy and the API.
func isFromBetween(status int) bool {
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return true
	}
	return false
}

// class returns the class of an upstream's statuses: that of the profile, except that statuses which a gateway may
// have sent are ambiguous.
func (r Route) class(byProfile httpsafe.ClassFunc) httpsafe.ClassFunc {
	return func(status int) retrysafe.Class {
		isTrusted := r.TrustUnavailable && (status == http.StatusServiceUnavailable || status == http.StatusRequestTimeout)
		if isFromBetween(status) && !isTrusted {
			return retrysafe.ClassAmbiguous
		}
		return byProfile(status)
	}
}

// saysNothingHappened reports whether an answer with such a status says that the operation did not run. body is what
// was fetched of it. Retry-After counts if the profile frees the key of the status.
func (r Route) saysNothingHappened(res *http.Response, body []byte) bool {
	if !isFromBetween(res.StatusCode) {
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
	asksToRetry := res.Header.Get("Retry-After") != "" &&
		res.StatusCode != http.StatusBadGateway && res.StatusCode != http.StatusGatewayTimeout
	return asksToRetry && r.HTTP.Profile.Class(res.StatusCode) == retrysafe.ClassRelease
}
