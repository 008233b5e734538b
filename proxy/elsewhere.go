package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// Routes whose upstream completes the keys (HTTP.CompletedElsewhere), and the headers that hand the leases over. Whoever
// has the token of a lease can complete its key, so that no client may send one or see one, on any route.

// policy returns what the route overrides of the Guard's policy.
func (r Route) policy() retrysafe.Policy {
	if r.HTTP.CompletedElsewhere {
		return r.Policy.CompletedElsewhere()
	}
	return r.Policy
}

// checkCompletedElsewhere refuses what such a route cannot keep.
func (r Route) checkCompletedElsewhere(p retrysafe.Policy) error {
	switch {
	case !r.HTTP.CompletedElsewhere:
		return nil
	case r.Stream:
		return errors.New("HTTP.CompletedElsewhere and Stream cannot be combined: the record decides which answer the " +
			"client gets, and it is read when the upstream has answered")
	case p.OnStoreError == retrysafe.FailOpen:
		return errors.New("HTTP.CompletedElsewhere and FailOpen cannot be combined: while the store fails there is no " +
			"lease under which the upstream could complete the key")
	}
	return nil
}

// checkHeaders refuses other uses of the headers that hand a lease over.
func (r Route) checkHeaders() error {
	for _, name := range []string{r.UpstreamKey, r.AttemptHeader} {
		if isLeaseHeader(name) {
			return fmt.Errorf("the header %s cannot be chosen: the proxy removes it from every request", name)
		}
	}
	return nil
}

// handOver adds the lease of an attempt to the request that the upstream gets.
func handOver(h http.Header, a *retrysafe.Attempt) {
	if token := a.Control().Lease().Token(); token != "" {
		h[httpsafe.LeaseHeader] = []string{token}
		h[httpsafe.AttemptHeader] = []string{fmt.Sprint(a.Number())}
	}
}

// hyphenated returns the name of a field with hyphens between its words. Many servers do not see what stands there:
// WSGI and CGI read "-" and "_" alike, and PHP reads any byte but a letter or digit as "_".
func hyphenated(name string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			return c
		}
		return '-'
	}, name)
}

// removeImitations removes the fields that such a server could take for one of names, which the proxy sets.
func removeImitations(h http.Header, names ...string) {
	for name := range h {
		plain := hyphenated(name)
		same := func(n string) bool { return strings.EqualFold(hyphenated(n), plain) }
		if plain != name && slices.ContainsFunc(names, same) {
			delete(h, name)
		}
	}
}

// isLeaseHeader reports whether a header or trailer hands a lease over, or says when an inbox has accepted the request.
// Letter case is ignored, and so is what stands between the words.
func isLeaseHeader(name string) bool {
	switch len(name) {
	case len(httpsafe.LeaseHeader), len(httpsafe.AttemptHeader), len(httpsafe.AcceptedHeader):
		name = hyphenated(name)
		return strings.EqualFold(name, httpsafe.LeaseHeader) || strings.EqualFold(name, httpsafe.AttemptHeader) ||
			strings.EqualFold(name, httpsafe.AcceptedHeader)
	}
	return false
}

// hasLease reports whether there is a field that hands a lease over.
func hasLease(h http.Header) bool {
	for name := range h {
		if isLeaseHeader(strings.TrimPrefix(name, http.TrailerPrefix)) {
			return true
		}
	}
	return false
}

// removeLease removes the fields that hand a lease over.
func removeLease(h http.Header) {
	for name := range h {
		if isLeaseHeader(strings.TrimPrefix(name, http.TrailerPrefix)) {
			delete(h, name)
		}
	}
}

// withoutLease returns the header of a request without the fields that hand a lease over. The request's own is not
// changed, because it belongs to the code that calls the proxy.
func withoutLease(h http.Header) http.Header {
	if !hasLease(h) {
		return h
	}
	h = h.Clone()
	removeLease(h)
	return h
}
