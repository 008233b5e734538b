package httpkey

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Profile says how a family of APIs takes keys: where the key is, how it is written, which methods have one, and what
// marks an answer to it. It is data: copy one and change the copy, or write your own.
//
// Names of headers may be written in any case.
type Profile struct {
	// Name is for people and logs.
	Name string

	// Header carries the key; Aliases are accepted too.
	Header  string
	Aliases []string
	// BodyField is a JSON pointer to the key, for APIs that carry it in the body; QueryField a query parameter.
	BodyField, QueryField string
	// FirstSent is a header with the time of the first attempt (an IMF-fixdate), which must accompany the key. A server
	// refuses a request as expired if it was first sent before the Guard's Retention.Key, and no record of it is left.
	FirstSent string
	// KeySyntax says what a key must look like.
	KeySyntax Syntax

	// Methods that take a key, in capitals. Safe methods never do.
	Methods []string
	// Retention that the API's documentation promises. Clients stop their retries before it ends. On a server the Guard's
	// Policy decides; this is a suggestion for it.
	Retention time.Duration
	// Retries500 is how often a client asks again after a 500 that says nothing else. 0: as after any failure.
	Retries500 int

	// Marker is a header set to "true" on replays.
	Marker string
	// MarkerField is a JSON pointer to a member that replays have, set to true: "/replayed". It is not stored. A body
	// that is not a JSON object, or has a Content-Encoding other than gzip, is sent without it.
	MarkerField string
	// AcceptedHeader is set on answers to requests that were executed, or may have been: responses of the handler,
	// replays, and refusals because the outcome is unknown.
	AcceptedHeader HeaderLine
}

// HeaderLine is one header field.
type HeaderLine struct{ Name, Value string }

// WithHeader returns a copy of p whose key is in a header of that name, and nowhere else.
func (p Profile) WithHeader(name string) Profile {
	p.Header, p.Aliases, p.BodyField, p.QueryField = name, nil, "", ""
	return p
}

// Headers returns the canonical names of the headers that carry a key, the main one first.
func (p Profile) Headers() []string {
	var all []string
	for _, name := range append([]string{p.Header}, p.Aliases...) {
		if name != "" {
			all = append(all, http.CanonicalHeaderKey(name))
		}
	}
	return all
}

// ProfileByName returns the profile of that name: ietf, ietf-strict, stripe, stripe-v2, paypal, adyen, repeatability,
// square, aws, checkout, gocardless, acp, ucp, adcp, iceberg or jsonrpc. The error for another name lists these.
func ProfileByName(name string) (Profile, error) {
	var names []string
	for _, p := range []Profile{
		IETF(), IETFStrict(), Stripe(), StripeV2(), PayPal(), Adyen(), Repeatability(), Square(), AWS(), Checkout(),
		GoCardless(), ACP(), UCP(), AdCP(), Iceberg(), JSONRPC(),
	} {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("httpkey: unsupported profile %q; supported: %s", name, strings.Join(names, ", "))
}
