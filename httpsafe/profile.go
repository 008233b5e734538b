package httpsafe

import (
	"fmt"
	"time"
)

// Profile is how one family of APIs words idempotency: header, syntax, statuses, error bodies. It is data: copy one and
// change it, or write your own. Fields of Options override those of the Profile.
type Profile struct {
	Name string
	// Header that carries the key. Aliases are accepted too.
	Header  string
	Aliases []string
	// BodyField is a JSON pointer to the key, for APIs that carry it in the body; QueryField a query parameter.
	BodyField, QueryField string
	// FirstSent is a header with the time of the first attempt (an IMF-fixdate), which must come along with the key:
	// a request first sent before the Guard's Retention.Key, of which no record is left, is refused as expired.
	FirstSent string
	KeySyntax KeySyntax
	// Methods that are guarded.
	Methods []string
	// Required: a request without a key is refused.
	Required bool
	// ScopeRoute: the same key on another route is another key.
	ScopeRoute bool
	// IgnoreBody: requests with the same key are not compared.
	IgnoreBody bool
	// RejectUnsupported: a key on a method that is not guarded is refused, unless the method is safe.
	RejectUnsupported bool
	// Retention that the profile's documentation promises. The Guard's Policy decides; this is its suggestion.
	Retention time.Duration
	// Class tells which responses are kept.
	Class ClassFunc
	// Retries500 is how often a Transport asks again after a 500 that says nothing else. 0: as after any failure.
	Retries500 int
	// Marker is a header set to "true" on replays. StatusHeader adds Idempotency-Status, EchoKey the key as received.
	Marker       string
	StatusHeader bool
	EchoKey      bool
	// OriginalHeader is set, on replays, to the ID of the request that ran.
	OriginalHeader string
	// AcceptedHeader is set on answers to requests that were executed, or may have been: responses of the handler, replays,
	// and refusals because the outcome is unknown. RejectedHeader is set on all others.
	AcceptedHeader, RejectedHeader HeaderLine
	// RetryHeader tells clients whether to send the same request again. It is "true" on refusals that a retry with the
	// same key may get past, and "false" on other refusals and on server errors that every retry would get again.
	RetryHeader string
	// ReplayFunc words a replay as a refusal, for APIs that answer duplicates so. nil: the stored response.
	ReplayFunc func(Replayed) *Problem
	// Statuses that differ from those of Problem.
	Statuses map[Slug]int
	// RenderFunc renders a refusal. nil: ProblemJSON.
	RenderFunc func(Problem) (contentType string, body []byte)
}

// HeaderLine is one header field.
type HeaderLine struct{ Name, Value string }

// Replayed is a stored response, for Profile.ReplayFunc.
type Replayed struct {
	Status   int
	Location string
	Body     []byte
}

// Profiles returns all profiles that this package knows, the default first.
func Profiles() []Profile {
	return []Profile{
		IETF(), IETFStrict(), Stripe(), StripeV2(), PayPal(), Adyen(), Repeatability(), Square(), AWS(),
		Checkout(), GoCardless(),
	}
}

// ProfileByName returns the profile of that name: ietf, ietf-strict, stripe, stripe-v2, paypal, adyen, repeatability,
// square, aws, checkout or gocardless.
func ProfileByName(name string) (Profile, error) {
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("httpsafe: no profile %q: there are ietf, ietf-strict, stripe, stripe-v2, paypal, adyen, repeatability, square, aws, checkout and gocardless", name)
}
