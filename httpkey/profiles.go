package httpkey

import (
	"net/http"
	"regexp"
	"time"
)

const day = 24 * time.Hour

// IETF is the default: the Idempotency-Key header of the IETF draft, keys quoted or not.
func IETF() Profile {
	return Profile{
		Name:      "ietf",
		Header:    "Idempotency-Key",
		KeySyntax: Syntax{Form: StringOrBare, Max: 255},
		Methods:   []string{http.MethodPost, http.MethodPatch},
		Retention: day,
		Marker:    "Idempotent-Replayed",
	}
}

// IETFStrict is the draft read literally: quoted keys only.
func IETFStrict() Profile {
	p := IETF()
	p.Name = "ietf-strict"
	p.KeySyntax = Syntax{Form: StringOnly, Max: 1024}
	return p
}

// Stripe is version 1 of Stripe's API.
func Stripe() Profile {
	return Profile{
		Name:       "stripe",
		Header:     "Idempotency-Key",
		KeySyntax:  Syntax{Form: Bare, Max: 255},
		Methods:    []string{http.MethodPost},
		Retention:  day,
		Retries500: 1,
		Marker:     "Idempotent-Replayed",
	}
}

// StripeV2 is version 2 of Stripe's API.
func StripeV2() Profile {
	return Profile{
		Name:      "stripe-v2",
		Header:    "Idempotency-Key",
		KeySyntax: Syntax{Form: Bare, Max: 255},
		Methods:   []string{http.MethodPost, http.MethodDelete},
		Retention: 30 * day,
	}
}

// PayPal is PayPal's REST API.
func PayPal() Profile {
	return Profile{
		Name:      "paypal",
		Header:    "PayPal-Request-Id",
		KeySyntax: Syntax{Form: Bare, Max: 108},
		Methods:   []string{http.MethodPost},
		Retention: 45 * day,
	}
}

// Adyen is Adyen's API.
func Adyen() Profile {
	return Profile{
		Name:      "adyen",
		Header:    "Idempotency-Key",
		KeySyntax: Syntax{Form: Bare, Max: 64},
		Methods:   []string{http.MethodPost},
		Retention: 7 * day,
	}
}

// Repeatability is the OASIS Repeatable Requests standard, as Azure uses it.
func Repeatability() Profile {
	return Profile{
		Name:           "repeatability",
		Header:         "Repeatability-Request-ID",
		FirstSent:      "Repeatability-First-Sent",
		KeySyntax:      Syntax{Form: UUID, Max: 36},
		Methods:        []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		Retention:      day,
		AcceptedHeader: HeaderLine{"Repeatability-Result", "accepted"},
	}
}

// Square carries the key in the JSON body, as Square's API.
func Square() Profile {
	return Profile{
		Name:      "square",
		BodyField: "/idempotency_key",
		KeySyntax: Syntax{Form: Text, Max: 45},
		Methods:   []string{http.MethodPost, http.MethodPut},
		Retention: day,
	}
}

// AWS carries the key as a client token, in the JSON body or the query, as Amazon's services.
func AWS() Profile {
	return Profile{
		Name:       "aws",
		BodyField:  "/ClientToken",
		QueryField: "ClientToken",
		KeySyntax:  Syntax{Form: Bare, Max: 64},
		Methods:    []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		Retention:  day,
	}
}

// Checkout is Checkout.com's API.
func Checkout() Profile {
	return Profile{
		Name:      "checkout",
		Header:    "Cko-Idempotency-Key",
		KeySyntax: Syntax{Form: Bare, Max: 255},
		Methods:   []string{http.MethodPost},
		Retention: day,
	}
}

// GoCardless is GoCardless's API.
func GoCardless() Profile {
	return Profile{
		Name:      "gocardless",
		Header:    "Idempotency-Key",
		KeySyntax: Syntax{Form: Bare, Max: 128},
		Methods:   []string{http.MethodPost},
		Retention: day,
	}
}

// ACP is the Agentic Commerce Protocol.
func ACP() Profile {
	return Profile{
		Name:      "acp",
		Header:    "Idempotency-Key",
		KeySyntax: Syntax{Form: Bare, Max: 255},
		Methods:   []string{http.MethodPost},
		Retention: day,
		Marker:    "Idempotent-Replayed",
	}
}

// UCP is the Universal Commerce Protocol over REST. A key has at least 22 letters, which can hold 128 bits.
func UCP() Profile {
	return Profile{
		Name:      "ucp",
		Header:    "Idempotency-Key",
		KeySyntax: Syntax{Form: Bare, Min: 22, Max: 255},
		Methods:   []string{http.MethodPost, http.MethodPut},
		Retention: 2 * day,
	}
}

var adcpKey = regexp.MustCompile(`[A-Za-z0-9_.:-]+`)

// AdCP is the Ad Context Protocol over REST, which carries the key in the JSON body.
func AdCP() Profile {
	return Profile{
		Name:        "adcp",
		BodyField:   "/idempotency_key",
		KeySyntax:   Syntax{Form: Text, Min: 16, Max: 255, Pattern: adcpKey},
		Methods:     []string{http.MethodPost},
		Retention:   day,
		MarkerField: "/replayed",
	}
}

// Iceberg is the REST catalog of Apache Iceberg.
func Iceberg() Profile {
	return Profile{
		Name:      "iceberg",
		Header:    "Idempotency-Key",
		KeySyntax: Syntax{Form: UUID7, Max: 36},
		Methods:   []string{http.MethodPost, http.MethodDelete},
		Retention: day,
	}
}

// JSONRPC is JSON-RPC 2.0 over HTTP, with the header of the IETF draft.
func JSONRPC() Profile {
	p := IETF()
	p.Name = "jsonrpc"
	p.Methods = []string{http.MethodPost}
	return p
}
