package probe

import (
	"context"
	"net/url"
	"time"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// Recipe is what the probe has to know of a target: how to make a request that creates something, how to tell what
// was created, and what else is there to try. Target, Request and Identity are needed; each of the others makes more
// cases possible.
type Recipe struct {
	// Target is where the API is: scheme, host and port, and what all paths begin with.
	Target *url.URL
	// Profile is the name of the rules that the API has declared: see Profiles. Default "ietf".
	Profile string
	// KeyHeader carries the key. Default: that of the profile.
	KeyHeader string
	// KeyRequired says that a request without a key is refused.
	KeyRequired bool

	// Request creates something each time it is made with a new key.
	Request Template
	// Identity says what in an answer tells one created thing from another.
	Identity Identity
	// Count counts effects from outside, which is better evidence than identities. May be nil.
	Count Counter

	// A is the credential of ordinary requests, B another caller's. Header lines; empty: none.
	A, B []wire.HeaderLine
	// Revoked is a credential that may not make the request, or not any more. Empty: none is known.
	Revoked []wire.HeaderLine
	// AAgain is a credential of A's, too, as a later request has it: a fresh token, another signature. Empty: A's is
	// always the same.
	AAgain []wire.HeaderLine
	// OtherHost is another host that the target answers for, such as another tenant's. Empty: none.
	OtherHost string

	// Variants of the request, each for some cases; nil where there is none.
	Variants Variants

	// Retention is how long the API promises to replay; 0: unknown. Cases that wait for its end run only if it is at
	// most Limits.Wait.
	Retention time.Duration
	// Lease is how long the API says that a key stays in flight after its process has died; 0: unknown.
	Lease time.Duration
	// BodyTimeout is how long the API says that it waits for a request's body; 0: unknown.
	BodyTimeout time.Duration
	// PolicyURL is where the API publishes its rules.
	PolicyURL string
	// Hooks restart the target or stop its store.
	Hooks Hooks
	// Limits of a run.
	Limits Limits
}

// Variants are requests beside the plain one.
type Variants struct {
	Slow    *Template // takes a second or more
	Failing *Template // is refused for a business reason: 4xx
	Invalid *Template // is refused because its form is wrong
	Broken  *Template // ends with a 5xx
	Other   *Template // creates something at another path
	Read    *Template // GET of a thing whose representation changes when Request is made
	Put     *Template
	Delete  *Template // of what Put makes
	// of something, with an If-Match that is right once; without one it gets the ETag of what Put makes
	Patch     *Template
	Cookie    *Template // is answered with Set-Cookie
	Large     *Template // is answered with more than 1 MiB
	Async     *Template // is answered 202 with a Location
	Redirect  *Template // is answered 307 or 308
	Informed  *Template // is answered with a 103 or with trailers
	RateLimit *Template // is answered 429 when made too often
	Unkeyed   *Template // is at a path that does not support keys
	SeeOther  *Template // is answered 303 with a Location, when it has been carried out

	// Those below are for an API with something behind the layer that knows about keys, such as a proxy's upstream.
	Unanswered  *Template // is carried out, and the connection behind the layer ends before the answer
	CutOff      *Template // is carried out, and the connection behind the layer ends in the middle of the answer
	Late        *Template // is carried out, and answered when the layer does not wait any more
	Unavailable *Template // is carried out, and answered 503 by something on the way back that has lost the answer
	Unreached   *Template // does not reach the work the first time; made again, it does
	// is refused the first time by a layer further in, which says that it is in flight; made again, it is carried out
	Busy *Template
}

// Identity says where an answer has the identity of what was created: one of its fields is set.
type Identity struct {
	Pointer string // JSON pointer into the body (RFC 6901)
	Header  string // name of a header, such as Location
}

// Hooks are what the probe may do to the target. Each waits until it is done; nil: it cannot be done.
type Hooks struct {
	// Restart ends the target at once, as a crash does, and starts it again.
	Restart func(ctx context.Context) error
	// Revoke takes the credential of A away, Restore gives it back.
	Revoke, Restore func(ctx context.Context) error
	// StopStore makes the target's store unreachable, StartStore brings it back.
	StopStore, StartStore func(ctx context.Context) error
}
