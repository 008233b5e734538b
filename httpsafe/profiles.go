package httpsafe

import (
	"net/http"
	"time"
)

const day = 24 * time.Hour

// IETF is the default: the Idempotency-Key header of the IETF draft, keys quoted or not, problem details as errors.
func IETF() Profile {
	return Profile{
		Name:         "ietf",
		Header:       "Idempotency-Key",
		KeySyntax:    KeySyntax{Form: StringOrBare, Max: 255},
		Methods:      []string{http.MethodPost, http.MethodPatch},
		Retention:    day,
		Class:        ThreeClasses,
		Marker:       "Idempotent-Replayed",
		StatusHeader: true,
		EchoKey:      true,
	}
}

// IETFStrict is the draft read literally: quoted keys only, required, every response stored.
func IETFStrict() Profile {
	p := IETF()
	p.Name = "ietf-strict"
	p.KeySyntax = KeySyntax{Form: StringOnly, Max: 1024}
	p.Required = true
	p.Class = StoreAll
	return p
}

// Stripe answers as version 1 of Stripe's API.
func Stripe() Profile {
	return Profile{
		Name:           "stripe",
		Header:         "Idempotency-Key",
		KeySyntax:      KeySyntax{Form: Bare, Max: 255},
		Methods:        []string{http.MethodPost},
		Retention:      day,
		Class:          StoreExecuted,
		Retries500:     1,
		Marker:         "Idempotent-Replayed",
		EchoKey:        true,
		OriginalHeader: "Original-Request",
		Statuses:       map[Slug]int{KeyReused: 400, KeyClosed: 400, KeyExpired: 400},
		RetryHeader:    "Stripe-Should-Retry",
		RenderFunc:     renderStripe,
	}
}

// StripeV2 answers as version 2 of Stripe's API: failures run again.
func StripeV2() Profile {
	return Profile{
		Name:        "stripe-v2",
		Header:      "Idempotency-Key",
		KeySyntax:   KeySyntax{Form: Bare, Max: 255},
		Methods:     []string{http.MethodPost, http.MethodDelete},
		Retention:   30 * day,
		Class:       StoreUnlessFailed,
		RetryHeader: "Stripe-Should-Retry",
		Statuses:    map[Slug]int{KeyReused: 400, KeyClosed: 400, KeyExpired: 400},
		RenderFunc:  renderStripe,
	}
}

// PayPal answers as PayPal's REST API.
func PayPal() Profile {
	return Profile{
		Name:       "paypal",
		Header:     "PayPal-Request-Id",
		KeySyntax:  KeySyntax{Form: Bare, Max: 108},
		Methods:    []string{http.MethodPost},
		ScopeRoute: true,
		Retention:  45 * day,
		Class:      StoreSuccesses,
		RenderFunc: renderPayPal,
	}
}

// Adyen answers as Adyen's API.
func Adyen() Profile {
	return Profile{
		Name:        "adyen",
		Header:      "Idempotency-Key",
		KeySyntax:   KeySyntax{Form: Bare, Max: 64},
		Methods:     []string{http.MethodPost},
		Retention:   7 * day,
		Class:       ThreeClasses,
		EchoKey:     true,
		RetryHeader: "Transient-Error",
		RenderFunc:  renderAdyen,
	}
}

// Repeatability is the OASIS Repeatable Requests standard, as Azure uses it.
func Repeatability() Profile {
	return Profile{
		Name:              "repeatability",
		Header:            "Repeatability-Request-ID",
		FirstSent:         "Repeatability-First-Sent",
		KeySyntax:         KeySyntax{Form: UUID, Max: 36},
		Methods:           []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		RejectUnsupported: true,
		Retention:         day,
		Class:             ThreeClasses,
		AcceptedHeader:    HeaderLine{"Repeatability-Result", "accepted"},
		RejectedHeader:    HeaderLine{"Repeatability-Result", "rejected"},
		Statuses:          map[Slug]int{KeyReused: 400, KeyClosed: 400, KeyExpired: 412},
		RenderFunc:        renderOData,
	}
}

// Square carries the key in the JSON body, as Square's API.
func Square() Profile {
	return Profile{
		Name:       "square",
		BodyField:  "/idempotency_key",
		KeySyntax:  KeySyntax{Form: Text, Max: 45},
		Methods:    []string{http.MethodPost, http.MethodPut},
		Required:   true,
		ScopeRoute: true,
		Retention:  day,
		Class:      StoreExecuted,
		Statuses:   map[Slug]int{KeyReused: 400, KeyClosed: 400, KeyExpired: 400},
		RenderFunc: renderSquare,
	}
}

// AWS carries the key as a client token, in the JSON body or the query, as Amazon's services.
func AWS() Profile {
	return Profile{
		Name:       "aws",
		BodyField:  "/ClientToken",
		QueryField: "ClientToken",
		KeySyntax:  KeySyntax{Form: Bare, Max: 64},
		Methods:    []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		ScopeRoute: true,
		Retention:  day,
		Class:      StoreSuccesses,
		Statuses:   map[Slug]int{KeyReused: 400, KeyClosed: 400, KeyExpired: 400},
		RenderFunc: renderAWS,
	}
}

// Checkout answers as Checkout.com's API: requests are not compared.
func Checkout() Profile {
	return Profile{
		Name:       "checkout",
		Header:     "Cko-Idempotency-Key",
		KeySyntax:  KeySyntax{Form: Bare, Max: 255},
		Methods:    []string{http.MethodPost},
		ScopeRoute: true,
		IgnoreBody: true,
		Retention:  day,
		Class:      StoreSuccesses,
		Statuses:   map[Slug]int{RequestInFlight: 429},
		RenderFunc: renderCheckout,
	}
}

// GoCardless answers every duplicate of a success with a conflict that names what was created, as GoCardless's API.
func GoCardless() Profile {
	return Profile{
		Name:       "gocardless",
		Header:     "Idempotency-Key",
		KeySyntax:  KeySyntax{Form: Bare, Max: 128},
		Methods:    []string{http.MethodPost},
		ScopeRoute: true,
		IgnoreBody: true,
		Retention:  day,
		Class:      StoreSuccesses,
		ReplayFunc: conflictingResource,
		Statuses:   map[Slug]int{KeyReused: 409, KeyClosed: 409, KeyExpired: 409},
		RenderFunc: renderGoCardless,
	}
}
