package probe

import (
	"context"
	"net/url"
	"time"

	"github.com/retrysafe/retrysafe/probe/profile"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// Recipe tells the probe how to use a target: how to send a request that creates something, and where the answer
// identifies what was created. Target, Request and Identity are required. Each of the other fields makes more cases
// possible; a case that lacks one ends as N/A. Run does not change the recipe.
type Recipe struct {
	// Route is the name of the route that the recipe is for, in reports. Empty: the API has one request only.
	Route string
	// Target is the URL of the API: scheme, host and port, and the path that all other paths begin with.
	Target *url.URL
	// Profile is the name of the rules that the API declares: see package profile. Default "ietf".
	Profile string
	// Rules are those that the API declares, if they are not the rules of a Profile: see recipe.LoadRules.
	Rules *profile.Rules
	// KeyHeader is the header that carries the key. Default: that of the profile.
	KeyHeader string
	// KeyBody is a JSON pointer to the member of the body that carries the key, or "/" and the name of the field if
	// the body is a form. KeyQuery is the query parameter that carries it. At most one of the three is set.
	KeyBody, KeyQuery string
	// KeyRequired says that the API refuses requests without a key.
	KeyRequired bool

	// Request creates one thing each time it is sent with a new key.
	Request Template
	// Identity says where an answer identifies the created thing.
	Identity Identity
	// Count counts effects from outside. That is better evidence than identities, which only repeat what the API
	// says of itself. May be nil.
	Count Counter

	// A is the credential of ordinary requests, B that of another caller. They are header lines; empty means none.
	A, B []wire.HeaderLine
	// Revoked is a credential that the API must refuse, such as a revoked one. Empty: none is known.
	Revoked []wire.HeaderLine
	// AAgain is another credential of A, as a later request has it: a fresh token or another signature. Empty: A
	// always has the same one.
	AAgain []wire.HeaderLine
	// OtherHost is another host name that the target serves, such as another tenant's. Empty: none.
	OtherHost string

	// Variants are requests for cases that need one with a special outcome.
	Variants Variants

	// Retention is how long the API promises to replay; 0 means unknown. Cases that wait for its end run only if it
	// is at most Limits.Wait.
	Retention time.Duration
	// Lease is how long a key stays in flight after its process died, as the API documents it; 0 means unknown.
	Lease time.Duration
	// BodyTimeout is how long the API waits for the body of a request, as it documents it; 0 means unknown.
	BodyTimeout time.Duration
	// PolicyURL is the page on which the API publishes its rules. Empty: there is none.
	PolicyURL string
	// Hooks restart the target, stop its store, or revoke a credential.
	Hooks Hooks
	// Limits keep the run within bounds. The zero value has sensible ones.
	Limits Limits
}

// Declared returns the rules that the API declares: Rules, or else those of Profile. Those of a Profile that does not
// exist are empty.
func (r *Recipe) Declared() profile.Rules {
	if r.Rules != nil {
		return *r.Rules
	}
	rules, _ := profile.Of(r.Profile)
	return rules
}

// WithKeyPlace returns the recipe with the place of the key that its rules declare, if that is neither a header nor a
// member of the body itself, and the recipe names no place.
func (r Recipe) WithKeyPlace() Recipe {
	if rules := r.Declared(); r.KeyHeader == "" && r.KeyBody == "" && r.KeyQuery == "" {
		r.KeyBody, r.KeyQuery = rules.Pointer, rules.Query
	}
	return r
}

// Variants are requests besides the plain one. Each makes some cases possible; nil: the target has no such request.
type Variants struct {
	Slow    *Template // takes a second or more
	Failing *Template // is refused with a 4xx for a business reason, such as a declined card
	Invalid *Template // is refused because it fails validation
	Broken  *Template // ends with a 5xx
	Other   *Template // creates something at another path
	Read    *Template // is a GET whose answer changes when Request creates something
	Put     *Template
	Delete  *Template // of the resource that Put creates
	// of a resource, with an If-Match that is right once. Without If-Match it gets the ETag of the answer to Put
	Patch     *Template
	Cookie    *Template // is answered with Set-Cookie
	Large     *Template // is answered with more than 1 MiB
	Async     *Template // is answered 202 with a Location
	Redirect  *Template // is answered 307 or 308
	Informed  *Template // is answered with a 103 or with trailers
	RateLimit *Template // is answered 429 when made too often
	Unkeyed   *Template // is at a path that does not support keys
	SeeOther  *Template // runs and is answered 303 with a Location

	// The variants below are for an API whose idempotency layer is not the service that does the work, such as a proxy.
	// The probe cannot break the connection between the two, so these requests ask the service to do it.
	Unanswered  *Template // runs, and the upstream closes its connection before the answer
	CutOff      *Template // runs, and the upstream closes its connection in the middle of the answer
	Late        *Template // runs, and the upstream answers after the layer's timeout
	Unavailable *Template // runs, and a gateway that has lost the answer sends a 503
	Unreached   *Template // does not reach the upstream the first time; a retry does
	// is refused as in flight by an inner layer the first time; a retry runs
	Busy *Template
}

// Identity says where an answer identifies what was created. Exactly one of its fields is set.
type Identity struct {
	Pointer string // JSON pointer into the body (RFC 6901)
	Header  string // name of a header, such as Location
}

// Hooks are actions on the target. Each returns when its action is complete: Restart when the target listens again. A
// hook that is nil is not available, and the cases that need it end as N/A.
type Hooks struct {
	// Restart kills the target without a warning, as a crash does, and starts it again.
	Restart func(ctx context.Context) error
	// Revoke makes the target refuse the credential of A. Restore undoes that; it runs even if the run is cancelled.
	Revoke, Restore func(ctx context.Context) error
	// StopStore makes the target's store unreachable. StartStore undoes that; it runs even if the run is cancelled.
	StopStore, StartStore func(ctx context.Context) error
}
