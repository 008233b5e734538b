package httpsafe

import (
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpkey"
)

// IETF is the default: the Idempotency-Key header of the IETF draft, keys quoted or not, problem details as errors.
func IETF() Profile {
	return Profile{
		Profile:      httpkey.IETF(),
		Class:        ThreeClasses,
		StatusHeader: true,
		EchoKey:      true,
	}
}

// IETFStrict is the draft read literally: quoted keys only, required, every response stored.
func IETFStrict() Profile {
	p := IETF()
	p.Profile = httpkey.IETFStrict()
	p.Required = true
	p.Class = StoreAll
	return p
}

// Stripe answers as version 1 of Stripe's API.
func Stripe() Profile {
	return Profile{
		Profile:        httpkey.Stripe(),
		Class:          StoreExecuted,
		EchoKey:        true,
		OriginalHeader: "Original-Request",
		Statuses:       map[Slug]int{KeyReused: 400, KeyClosed: 400, KeyExpired: 400},
		RetryHeader:    "Stripe-Should-Retry",
		Refusal:        refusalOfStripe(),
	}
}

// StripeV2 answers as version 2 of Stripe's API: failures run again.
func StripeV2() Profile {
	return Profile{
		Profile:     httpkey.StripeV2(),
		Class:       StoreSuccesses,
		RetryHeader: "Stripe-Should-Retry",
		Statuses:    map[Slug]int{KeyReused: 400, KeyClosed: 400, KeyExpired: 400},
		Refusal:     refusalOfStripe(),
	}
}

// PayPal answers as PayPal's REST API.
func PayPal() Profile {
	return Profile{
		Profile:    httpkey.PayPal(),
		ScopeRoute: true,
		Class:      StoreSuccesses,
		Refusal:    refusalOfPayPal(),
	}
}

// Adyen answers as Adyen's API.
func Adyen() Profile {
	return Profile{
		Profile:     httpkey.Adyen(),
		Class:       ThreeClasses,
		EchoKey:     true,
		RetryHeader: "Transient-Error",
		Refusal:     refusalOfAdyen(),
	}
}

// Repeatability is the OASIS Repeatable Requests standard, as Azure uses it.
func Repeatability() Profile {
	return Profile{
		Profile:           httpkey.Repeatability(),
		RejectUnsupported: true,
		Class:             ThreeClasses,
		RejectedHeader:    httpkey.HeaderLine{Name: "Repeatability-Result", Value: "rejected"},
		Statuses:          map[Slug]int{KeyReused: 400, KeyClosed: 400, KeyExpired: 412},
		Refusal:           refusalOfOData(),
	}
}

// Square carries the key in the JSON body, as Square's API.
func Square() Profile {
	return Profile{
		Profile:    httpkey.Square(),
		Required:   true,
		ScopeRoute: true,
		Class:      StoreExecuted,
		Statuses:   map[Slug]int{KeyReused: 400, KeyClosed: 400, KeyExpired: 400},
		Refusal:    refusalOfSquare(),
	}
}

// AWS carries the key as a client token, in the JSON body or the query, as Amazon's services.
func AWS() Profile {
	return Profile{
		Profile:    httpkey.AWS(),
		ScopeRoute: true,
		Class:      StoreSuccesses,
		Statuses:   map[Slug]int{KeyReused: 400, KeyClosed: 400, KeyExpired: 400},
		Refusal:    refusalOfAWS(),
	}
}

// Checkout answers as Checkout.com's API: requests are not compared.
func Checkout() Profile {
	return Profile{
		Profile:    httpkey.Checkout(),
		ScopeRoute: true,
		IgnoreBody: true,
		Class:      StoreSuccesses,
		Statuses:   map[Slug]int{RequestInFlight: 429},
		Refusal:    refusalOfCheckout(),
	}
}

// GoCardless answers every duplicate of a success with a conflict that names what was created, as GoCardless's API.
func GoCardless() Profile {
	return Profile{
		Profile:       httpkey.GoCardless(),
		ScopeRoute:    true,
		IgnoreBody:    true,
		Class:         StoreSuccesses,
		RefuseReplays: true,
		Statuses:      map[Slug]int{KeyReused: 409, KeyClosed: 409, KeyExpired: 409},
		Refusal:       refusalOfGoCardless(),
	}
}

// ACP answers as the Agentic Commerce Protocol has it: a key belongs to a caller and a path, and bodies are compared by
// what they mean.
func ACP() Profile {
	return Profile{
		Profile:     httpkey.ACP(),
		Required:    true,
		ScopeRoute:  true,
		ScopePath:   true,
		Fingerprint: FingerprintFields(fingerprint.Fields{Numbers: fingerprint.ByValue}).WithoutHeaders(),
		Class:       StoreUnlessServerFailed,
		Ambiguous:   retrysafe.AmbiguousUnknown,
		EchoKey:     true,
		Refusal:     refusalOfACP(),
	}
}

// UCP answers as the Universal Commerce Protocol has it over REST. A key in flight is answered with 503, which its
// clients send again; 409 would mean that the key was used for another request.
func UCP() Profile {
	return Profile{
		Profile:    httpkey.UCP(),
		Required:   true,
		ScopeRoute: true,
		Class:      ThreeClasses,
		Statuses:   map[Slug]int{KeyReused: 409, KeyClosed: 409, KeyExpired: 409, RequestInFlight: 503},
		Refusal:    refusalOfUCP(),
	}
}

// AdCP answers as the Ad Context Protocol has it over REST: only successes are kept, replays are marked in their
// bodies, and a key whose answer is gone is refused.
func AdCP() Profile {
	return Profile{
		Profile:  httpkey.AdCP(),
		Required: true,
		Fingerprint: FingerprintFields(fingerprint.Fields{
			Exclude: []string{
				"/idempotency_key", "/context", "/governance_context", "/push_notification_config/authentication/credentials",
			},
			Numbers: fingerprint.AsDoubles,
		}).WithoutHeaders(),
		Class:     StoreSuccesses,
		Ambiguous: retrysafe.AmbiguousUnknown,
		Records: retrysafe.Retention{
			Replay: 24*time.Hour + time.Minute, // for clocks that differ
			Key:    30 * 24 * time.Hour,
		},
		EchoFields: []string{"/context"},
		Refusal:    refusalOfAdCP(),
	}
}

// Iceberg answers as the REST catalog of Apache Iceberg. A key in flight is answered with 503, which its clients send
// again with the same key; they take 409 for a commit that has failed.
func Iceberg() Profile {
	return Profile{
		Profile:   httpkey.Iceberg(),
		Class:     StoreUnlessServerFailed,
		Ambiguous: retrysafe.AmbiguousUnknown,
		Lifetime:  Lifetime{Path: "/v1/config", Field: "/idempotency-key-lifetime"},
		Statuses:  map[Slug]int{RequestInFlight: 503},
		Refusal:   refusalOfIceberg(),
	}
}

// JSONRPC answers with error objects of JSON-RPC 2.0. Requests are compared without their ids, and answers have the id
// of the request that gets them.
func JSONRPC() Profile {
	return Profile{
		Profile:      httpkey.JSONRPC(),
		Fingerprint:  FingerprintFields(fingerprint.Fields{Exclude: []string{"/id"}}),
		Class:        ThreeClasses,
		StatusHeader: true,
		EchoKey:      true,
		EchoFields:   []string{"/id"},
		Refusal:      refusalOfJSONRPC(),
	}
}
