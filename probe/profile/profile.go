// Package profile has the rules that an API can declare, by name: what the draft, a provider or a standard says that
// a client may count on. Cases compare with these rules and do not know the profiles.
package profile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// Rules are what a profile says that a client may count on. Statuses are those that are right; none: the profile does
// not say, and what is seen is recorded.
type Rules struct {
	Name   string
	Base   string // the profile of All that rules of an API's own were made from; "": these are rules of All
	Title  string // for people
	Header string // that carries the key; "": the key is in the body
	Member string // of the JSON body that carries the key
	// Pointer is a JSON pointer to a key that is deeper in the body, Query the query parameter that carries it.
	Pointer, Query string
	Quoted         bool // keys are sent as structured-field strings
	// FirstSent is the header that must come with the key, with the time of the first request (OASIS Repeatable
	// Requests).
	FirstSent string

	MaxKey    int    // the longest key that must work
	UUIDs     bool   // keys are UUIDs, and nothing else must work
	UUID7     bool   // of version 7, which begin with the time
	FoldsCase bool   // keys that differ in case only are the same
	Bare      Taking // how an unquoted key is taken
	Quotes    Taking // how a quoted one is taken

	Missing, Malformed, Mismatch, InFlight, Expired []int
	MismatchText                                    string // that must be in the body of a mismatch
	Problem                                         bool   // errors are problem details with a link to the rules

	Marker       string // header of a replay
	MarkerValue  string
	MarkerNeeded bool
	// RefusalValue is the value of Marker in an answer that says that nothing was done; "": the profile has none.
	RefusalValue string
	// SameBytes: a replay has the status and the bytes of the first answer; otherwise it shows the same thing.
	SameBytes bool
	// Replays is false where every duplicate is refused with Mismatch.
	Replays bool
	// Compares: the request of a retry is compared with the first one.
	Compares bool
	// ByRoute: a key belongs to its route; the same key elsewhere is another key.
	ByRoute bool
	Methods []string
	// TooLong: a key that is longer than MaxKey is refused.
	TooLong bool
	// AllRoutes: the same key at another route is a mismatch. Where neither this nor ByRoute is said, both may be.
	AllRoutes bool
	// WholeTarget: the first answer is never that to the same path with another query.
	WholeTarget bool
	// Doubles: numbers that are the same IEEE 754 double are the same.
	Doubles bool
	// LooseBody: the first answer may be given to another body, though it should not.
	LooseBody bool
	// HeadersCount: other headers make another request, or should.
	HeadersCount bool
	// FailsInFlight: a request whose key is in flight may be refused with any 4xx, not only with InFlight.
	FailsInFlight bool
	// CallersFault is the word in an error's body that says that the request was wrong; "": the profile has none.
	CallersFault string
	// NoRetry is the header line by which an error says that a retry gets the same; none: the profile has no such line.
	NoRetry wire.HeaderLine
	// KeepsErrors: once the work has begun, its 4xx and 5xx are kept as its successes are.
	KeepsErrors bool
}

// Taking is how something is to be taken.
type Taking uint8

const (
	Open     Taking = iota // the profile does not say
	Accepted               // it works
	Refused                // 400, and nothing happens
)

// All returns the rules that an API can declare, by name.
func All() map[string]Rules {
	all := map[string]Rules{}
	for _, r := range []Rules{
		ietf(), ietfStrict(), stripe(), stripeV2(), paypal(), adyen(), repeatability(), square(), aws(), checkout(),
		gocardless(), acp(), ucp(), adcp(), iceberg(), jsonrpc(), none(),
	} {
		all[r.Name] = r
	}
	return all
}

// Names returns the names of All in alphabetical order.
func Names() []string { return slices.Sorted(maps.Keys(All())) }

// Of returns the rules of a profile; "" is ietf. It returns an error that names the profiles if there is no such one.
func Of(name string) (Rules, error) {
	if name == "" {
		name = "ietf"
	}
	r, ok := All()[name]
	if !ok {
		return r, fmt.Errorf("no profile %q; supported: %s", name, strings.Join(Names(), ", "))
	}
	return r, nil
}

// ietf has the rules of the IETF draft. The draft has no marker for replays; this one is common practice.
func ietf() Rules {
	return Rules{
		Name: "ietf", Title: "draft-ietf-httpapi-idempotency-key-header-07", Header: "Idempotency-Key", Quoted: true,
		MaxKey: 255,
		Bare:   Accepted, Quotes: Accepted, Missing: []int{400}, Malformed: []int{400}, Mismatch: []int{422},
		InFlight: []int{409},
		Problem:  true, Marker: "Idempotent-Replayed", MarkerValue: "true", SameBytes: true, Replays: true, Compares: true,
		Methods: []string{"POST", "PATCH"}, WholeTarget: true,
	}
}

// ietfStrict has the rules of the draft taken literally: a key without quotes is malformed.
func ietfStrict() Rules {
	r := ietf()
	r.Name, r.Title, r.Bare = "ietf-strict", "the draft taken literally: keys are structured-field strings only", Refused
	return r
}

// stripe has the rules that Stripe documents for version 1 of its API: answers are saved once the work has begun,
// errors included.
func stripe() Rules {
	return Rules{
		Name: "stripe", Title: "Stripe, version 1", Header: "Idempotency-Key", MaxKey: 255, Bare: Accepted,
		Malformed: []int{400}, Mismatch: []int{400}, MismatchText: "idempotency_error", InFlight: []int{409},
		Marker: "Idempotent-Replayed", MarkerValue: "true", MarkerNeeded: true, SameBytes: true, Replays: true,
		Compares:    true,
		KeepsErrors: true, Methods: []string{"POST"}, TooLong: true, AllRoutes: true, WholeTarget: true,
		CallersFault: "invalid_request_error", NoRetry: wire.HeaderLine{Name: "Stripe-Should-Retry", Value: "false"},
	}
}

// stripeV2 has the rules of version 2, which does not replay errors.
func stripeV2() Rules {
	r := stripe()
	r.Name, r.Title, r.Methods = "stripe-v2", "Stripe, version 2", []string{"POST", "DELETE"}
	r.MarkerNeeded, r.KeepsErrors = false, false
	return r
}

// paypal has the rules of PayPal-Request-Id.
func paypal() Rules {
	return Rules{
		Name: "paypal", Title: "PayPal", Header: "PayPal-Request-Id", MaxKey: 108, Bare: Accepted,
		Mismatch: []int{422, 400, 409},
		InFlight: []int{409}, Replays: true, Compares: true, ByRoute: true, FailsInFlight: true, Methods: []string{"POST"},
		CallersFault: "INVALID_REQUEST",
	}
}

// adyen has the rules that Adyen documents.
func adyen() Rules {
	return Rules{
		Name: "adyen", Title: "Adyen", Header: "Idempotency-Key", MaxKey: 64, Bare: Accepted, Mismatch: []int{422, 409},
		InFlight: []int{409, 422}, SameBytes: true, Replays: true, Compares: true, Methods: []string{"POST"}, TooLong: true,
		CallersFault: `"validation"`,
	}
}

// repeatability has the rules of OASIS Repeatable Requests 1.0, which Microsoft's APIs follow. A request has a date of
// its first attempt, so that a server can refuse one that it may have forgotten.
func repeatability() Rules {
	return Rules{
		Name: "repeatability", Title: "OASIS Repeatable Requests 1.0", Header: "Repeatability-Request-ID",
		FirstSent: "Repeatability-First-Sent",
		MaxKey:    36, UUIDs: true, FoldsCase: true, Bare: Accepted, Missing: []int{400}, Malformed: []int{400},
		Mismatch: []int{400},
		InFlight: []int{409}, Expired: []int{412}, Marker: "Repeatability-Result", MarkerValue: "accepted",
		MarkerNeeded: true,
		RefusalValue: "rejected", LooseBody: true, HeadersCount: true,
		SameBytes: true, Replays: true, Compares: true, Methods: []string{"POST", "PUT", "PATCH", "DELETE"},
	}
}

// square has the rules of Square, whose keys are in the body.
func square() Rules {
	return Rules{
		Name: "square", Title: "Square", Member: "idempotency_key", MaxKey: 45, Bare: Accepted, Missing: []int{400},
		Mismatch: []int{400}, MismatchText: "IDEMPOTENCY_KEY_REUSED", InFlight: []int{409}, SameBytes: true,
		Replays: true, Compares: true,
		ByRoute: true, Methods: []string{"POST", "PUT"}, CallersFault: "INVALID_REQUEST_ERROR",
	}
}

// aws has the rules of the client tokens of AWS.
func aws() Rules {
	return Rules{
		Name: "aws", Title: "AWS client tokens", Member: "ClientToken", MaxKey: 64, Bare: Accepted, Mismatch: []int{400},
		MismatchText: "IdempotentParameterMismatch", InFlight: []int{409, 400}, SameBytes: true, Replays: true,
		Compares: true,
		ByRoute:  true, Methods: []string{"POST", "PUT", "PATCH", "DELETE"},
	}
}

// checkout has the rules of Checkout.com.
func checkout() Rules {
	return Rules{
		Name: "checkout", Title: "Checkout.com", Header: "Cko-Idempotency-Key", MaxKey: 255, Bare: Accepted,
		InFlight:  []int{429},
		SameBytes: true, Replays: true, ByRoute: true, Methods: []string{"POST"}, CallersFault: "request_invalid",
	}
}

// gocardless has the rules of GoCardless. A retry gets a conflict that names the first resource, not a replay.
func gocardless() Rules {
	return Rules{
		Name: "gocardless", Title: "GoCardless", Header: "Idempotency-Key", MaxKey: 128, Bare: Accepted, Mismatch: []int{409},
		InFlight: []int{409}, ByRoute: true, Methods: []string{"POST"}, CallersFault: "invalid_api_usage",
	}
}

// acp has the rules of the Agentic Commerce Protocol (rfc.agentic_checkout.md, section 6).
func acp() Rules {
	return Rules{
		Name: "acp", Title: "Agentic Commerce Protocol", Header: "Idempotency-Key", MaxKey: 255, Bare: Accepted,
		Missing: []int{400}, Malformed: []int{400}, Mismatch: []int{422}, MismatchText: "idempotency_conflict",
		InFlight: []int{409}, Marker: "Idempotent-Replayed", MarkerValue: "true", SameBytes: true, Replays: true,
		Compares: true, ByRoute: true, Methods: []string{"POST"}, TooLong: true, CallersFault: "invalid_request",
	}
}

// ucp has the rules of the Universal Commerce Protocol over REST (signatures.md). It says nothing about a key in
// flight, and its 409 means another request.
func ucp() Rules {
	return Rules{
		Name: "ucp", Title: "Universal Commerce Protocol", Header: "Idempotency-Key", MaxKey: 36, Bare: Accepted,
		Mismatch: []int{409}, InFlight: []int{503}, SameBytes: true, Replays: true, Compares: true, ByRoute: true,
		Methods: []string{"POST", "PUT"},
	}
}

// adcp has the rules of the Ad Context Protocol over REST (security.mdx). It names error codes and no statuses.
func adcp() Rules {
	return Rules{
		Name: "adcp", Title: "Ad Context Protocol", Member: "idempotency_key", MaxKey: 255, Bare: Accepted,
		Missing: []int{400}, Malformed: []int{400}, Mismatch: []int{400, 409, 422}, MismatchText: "IDEMPOTENCY_CONFLICT",
		InFlight: []int{409, 429, 503}, Replays: true, Compares: true, AllRoutes: true,
		Doubles: true, Methods: []string{"POST"}, TooLong: true, CallersFault: "correctable",
	}
}

// iceberg has the rules of the REST catalog of Apache Iceberg (rest-catalog-open-api.yaml).
func iceberg() Rules {
	return Rules{
		Name: "iceberg", Title: "Apache Iceberg REST catalog", Header: "Idempotency-Key", MaxKey: 36, UUIDs: true,
		UUID7: true, FoldsCase: true, Bare: Accepted, Malformed: []int{400}, Mismatch: []int{422, 400},
		InFlight: []int{503}, SameBytes: true,
		Replays: true, Compares: true, AllRoutes: true, Methods: []string{"POST", "DELETE"},
	}
}

// jsonrpc has the rules of JSON-RPC 2.0 over HTTP with the header of the draft: answers have the id of their request.
func jsonrpc() Rules {
	r := ietf()
	r.Name, r.Title, r.Methods, r.Problem = "jsonrpc", "JSON-RPC 2.0 with an Idempotency-Key", []string{"POST"}, false
	return r
}

// none has only the rules that hold for every API, whatever it declares.
func none() Rules {
	return Rules{
		Name: "none", Title: "nothing declared", Header: "Idempotency-Key", MaxKey: 36, Bare: Accepted, Replays: true,
		Compares: true,
		Methods:  []string{"POST"},
	}
}
