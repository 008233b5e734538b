package httpsafe

import (
	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpkey"
)

// Profile is the conventions of one family of APIs: where the key is, which statuses are kept, how refusals look. It is
// data: copy one and change the copy, or write your own.
//
//	profile := httpsafe.IETF()
//	profile.Methods = []string{http.MethodPut}
//
// Names of headers may be written in any case.
type Profile struct {
	// Profile is what clients have to know too: the place and the syntax of the key, the methods that are guarded, and
	// what marks an answer.
	httpkey.Profile

	// Required: a request without a key is refused.
	Required bool

	// RejectUnsupported: a key on a method that is not guarded is refused with 501, unless the method is safe. Without
	// it the key is ignored, and Idempotency-Status says so.
	RejectUnsupported bool
	// AllowEarlyData lets requests pass that were sent as TLS early data, instead of refusing them with 425. Early data
	// may be replayed by an attacker: allow it only with one store that all servers share.
	AllowEarlyData bool
	// ScopeRoute: the same key on another route is another key. Without it that is a mismatch.
	ScopeRoute bool
	// ScopePath, with ScopeRoute: the same key at another path is another key, also if one route serves both.
	ScopePath bool
	// IgnoreBody: requests with the same key are not compared by their bodies.
	IgnoreBody bool
	// Fingerprint is what requests are compared by, unless Options.Fingerprint says otherwise. Default: FingerprintRaw(),
	// or the method and target alone with IgnoreBody.
	Fingerprint FingerprintMethod

	// Class decides which responses are kept, by their status. Default ThreeClasses.
	Class ClassFunc
	// Ambiguous says what becomes of ambiguous responses where neither Options.Ambiguous nor a Guard that resumes
	// abandoned keys decides it. Default: they are stored.
	Ambiguous retrysafe.AmbiguousPolicy
	// Records is how long records should be kept. On a server the Guard's Policy decides, so set its Retention to this;
	// the proxy does so where a route says nothing. If Key is longer than Replay, a key whose answer is gone is refused
	// as expired, and is not free again. Default: Replay is the Retention of httpkey.Profile.
	Records retrysafe.Retention
	// KeepHeaders are stored and replayed although they are dropped by default; DropHeaders are not, although they are
	// kept by default.
	KeepHeaders, DropHeaders []string
	// DropBody never stores a body: a retry gets the status and the header, and Idempotency-Status says that the body is
	// missing. For bodies that must not lie in the store, such as secrets that are shown once. Their ETag, digests and
	// signatures are not stored either.
	DropBody bool
	// Redact are JSON pointers to values in the bodies of responses that are not stored: "/card/number". The first caller
	// gets the response as it is. In what is stored, and so in every replay, a string is replaced by
	// [fingerprint.Redacted], and any other value by null: see [fingerprint.RedactJSON]. A body in gzip is stored decoded
	// then. ETag, digests and signatures, from which a value could be guessed, are not stored, whatever KeepHeaders says;
	// what else depends on the body belongs into DropHeaders.
	//
	// If it is not certain that the values are found, the body is not stored, as with DropBody. This is so if a body is
	// not JSON or not whole (206), has two members of one name, is a list where a pointer names a member, has a
	// Content-Encoding other than gzip, or has more than Policy.MaxResult or 16 MiB when it is decoded.
	//
	// What other code stores is not redacted: the response that a service completes itself (Options.CompletedElsewhere), the
	// Result of a ReconcileFunc (see [Profile.Redacted]), of a step, and of a person's decision.
	Redact []string

	// StatusHeader adds Idempotency-Status to every answer. Without it only a replay that lacks its body has it,
	// because no profile says that in another way; HideStatus leaves it out there too.
	StatusHeader, HideStatus bool
	// EchoKey gives the key back as it was received.
	EchoKey bool
	// EchoFields are JSON pointers to members of a replayed body that are taken from the request that gets it, for
	// protocols in which an answer repeats what names its request: "/id" in JSON-RPC. What is stored stays as it is, and of
	// what is sent all other bytes do. A member that the request or the response lacks is not changed, and neither is a
	// body that is not JSON or has a Content-Encoding other than gzip. Two requests must count as one although they differ
	// there: exclude the members from the fingerprint. A refusal has the members of its request too, at the place that the
	// pointer names, if its body is a JSON object that has this place and if the body of the request has been read.
	EchoFields []string
	// Lifetime announces to clients for how long they may retry. Default: nothing is announced.
	Lifetime Lifetime
	// OriginalHeader is set, on replays, to the ID of the request that ran (its X-Request-Id).
	OriginalHeader string
	// RejectedHeader is set on all answers that do not have AcceptedHeader.
	RejectedHeader httpkey.HeaderLine
	// RetryHeader tells clients whether to send the same request again. It is "true" on refusals that a retry with the
	// same key may get past, and "false" on other refusals and on server errors that every retry would get again.
	RetryHeader string
	// RefuseReplays answers a replay with the refusal AlreadyCreated instead of the stored response, for APIs that refuse
	// duplicates. It names what was created, as conflicting_resource_id: by the end of the stored Location, or by the
	// member id of the stored body.
	RefuseReplays bool
	// ReplayFunc turns a replay into a refusal of your own. It comes before RefuseReplays. Default: none. If it returns
	// nil, the stored response is sent.
	ReplayFunc func(Replayed) *Problem
	// Location303 answers a retry whose response was not kept with 303 See Other, if its Location is known.
	Location303 bool
	// Statuses that differ from those of Problem.
	Statuses map[Slug]int
	// Refusal is how the bodies of refusals look. Default: problem details, as ProblemJSON writes them.
	Refusal RefusalBody
	// RenderFunc renders a refusal in a form that Refusal cannot describe, such as XML. It comes before Refusal. It must
	// be safe for concurrent use. Default: as Refusal says.
	RenderFunc func(Problem) (contentType string, body []byte)
}

// WithHeader returns a copy of p whose key is in a header of that name, and nowhere else.
func (p Profile) WithHeader(name string) Profile {
	p.Profile = p.Profile.WithHeader(name)
	return p
}

// ownHeaders returns the headers that the middleware itself sets or reads, besides those with the key. Those that the
// profile does not have are empty.
func (p Profile) ownHeaders() []string {
	return []string{p.FirstSent, p.Marker, p.OriginalHeader, p.AcceptedHeader.Name, p.RejectedHeader.Name, p.RetryHeader}
}

// Lifetime is where clients of a protocol read for how long a key may be used. The proxy writes it there; a service
// that uses the Middleware does so itself.
type Lifetime struct {
	// Path that ends the path of a GET request whose answer says it: "/v1/config".
	Path string
	// Field is a JSON pointer to the member of the answer that says it, as an ISO 8601 duration:
	// "/idempotency-key-lifetime".
	Field string
}

// Replayed is a stored response, for [Profile.ReplayFunc]. Body must not be changed.
type Replayed struct {
	Status   int
	Location string
	Body     []byte
}

// Profiles returns the profiles of this package, the default first.
func Profiles() []Profile {
	return []Profile{
		IETF(), IETFStrict(), Stripe(), StripeV2(), PayPal(), Adyen(), Repeatability(), Square(), AWS(),
		Checkout(), GoCardless(), ACP(), UCP(), AdCP(), Iceberg(), JSONRPC(),
	}
}

// ProfileByName returns the profile of that name: ietf, ietf-strict, stripe, stripe-v2, paypal, adyen, repeatability,
// square, aws, checkout, gocardless, acp, ucp, adcp, iceberg or jsonrpc. The error for another name lists these.
func ProfileByName(name string) (Profile, error) {
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
	}
	_, err := httpkey.ProfileByName(name) // names those that are supported
	return Profile{}, err
}
