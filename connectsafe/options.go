package connectsafe

import (
	"context"
	"regexp"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/retrysafe/retrysafe/rpcsafe"
)

// Options of an Interceptor. Options{} works: keys in the header Idempotency-Key, not required, all unary methods guarded.
//
// Lists of methods hold full names, such as "shop.v1.Payments/Create"; "shop.v1.Payments/*" is all of a service and "*" all there are.
type Options struct {
	// KeyHeader is the header that carries the key: as it stands, or as a structured-field string in quotes. Default "Idempotency-Key".
	KeyHeader string
	// KeyField is a string field of the request that carries the key instead, such as "request_id" (AIP-155), in requests that have it; names of fields
	// inside of messages are joined by dots. It holds a UUID of version 4, unless KeyPattern says otherwise. Default: none.
	KeyField string
	// KeyPattern that the whole key must match. Default: none.
	KeyPattern *regexp.Regexp
	// MaxKey is the longest key, in bytes. Default 255; at most retrysafe.MaxKeyBytes.
	MaxKey int
	// Methods that are guarded. Default: all. Those without side effects, health checks and reflection never are.
	Methods []string
	// Required are methods whose calls are refused without a key. Default: none.
	Required []string
	// RejectUnsupported refuses a key on methods that are not guarded, and on streams, with UNIMPLEMENTED. Default: it is ignored.
	RejectUnsupported bool
	// MaxKeyAge refuses a key that is a UUIDv7 older than this if nothing is known of it: its record may have been
	// forgotten. Default: off.
	MaxKeyAge time.Duration

	// ScopeMethod adds the method to the scope: the same key with another method is another key. Default: it is a mismatch.
	ScopeMethod bool
	// ScopeVersion is put in front of the scope, so that deployments whose requests differ in shape do not collide.
	ScopeVersion string
	// Fingerprint tells different requests apart. Default FingerprintMessage().
	Fingerprint FingerprintMethod
	// Secret makes fingerprints HMACs, so that whoever reads the store cannot guess requests from them.
	Secret []byte
	// QuotaFunc may refuse a call before its key is claimed, with RESOURCE_EXHAUSTED. Default: none.
	QuotaFunc QuotaFunc

	// Class tells which answers are kept. Default ThreeClasses.
	Class ClassFunc
	// Ambiguous says what becomes of ambiguous answers. Default: AmbiguousStore if the Guard refuses abandoned keys, and
	// AmbiguousUnknown if it goes on with them (Rerun, Reconcile).
	Ambiguous AmbiguousPolicy
	// KeepHeaders are stored and replayed although they are dropped by default; DropHeaders are not, although they are kept by default.
	// Both are names of headers and trailers.
	KeepHeaders, DropHeaders []string
	// Types finds the messages that are replayed. Default: those linked into the program (protoregistry.GlobalTypes).
	Types protoregistry.MessageTypeResolver

	// InFlightUnavailable refuses a call in flight with UNAVAILABLE instead of ABORTED, so that clients whose service config retries
	// UNAVAILABLE need nothing else, if TrailersOnly stands around the handlers.
	InFlightUnavailable bool
	// Marker is the header set to "true" on replays. Default "Idempotent-Replayed".
	Marker string
	// Domain of the ErrorInfo in refusals. Default "github.com/retrysafe/retrysafe".
	Domain string
	// PolicyURL is a page that tells clients the rules. Refusals link to it. Default: none.
	PolicyURL string
}

// QuotaFunc reports how long a caller that has used up its quota should wait; 0 lets the call through.
type QuotaFunc func(ctx context.Context, method, scope string) (retryAfter time.Duration)

// Validate reports what is wrong with the options.
func (o Options) Validate() error { return o.shared().Validate() }

func (o Options) shared() rpcsafe.Options {
	shared := rpcsafe.Options{
		Adapter:   "connectsafe",
		KeyHeader: o.KeyHeader, KeyField: o.KeyField, KeyPattern: o.KeyPattern, MaxKey: o.MaxKey,
		Methods: o.Methods, Required: o.Required, RejectUnsupported: o.RejectUnsupported, MaxKeyAge: o.MaxKeyAge,
		ScopeMethod: o.ScopeMethod, ScopeVersion: o.ScopeVersion, Fingerprint: o.Fingerprint, Secret: o.Secret, QuotaFunc: o.QuotaFunc,
		Ambiguous: o.Ambiguous, KeepHeaders: o.KeepHeaders, DropHeaders: o.DropHeaders, Types: o.Types,
		InFlightUnavailable: o.InFlightUnavailable, Marker: o.Marker, Domain: o.Domain, PolicyURL: o.PolicyURL,
	}
	if o.Class != nil {
		shared.Class = func(c code.Code) Class { return o.Class(connect.Code(c)) }
	}
	return shared
}

// Class says what an answer's code means for its key.
type Class = rpcsafe.Class

// The classes.
const (
	// ClassStore: the outcome is definite; the answer is kept and replayed.
	ClassStore = rpcsafe.ClassStore
	// ClassRelease: nothing happened; the answer is sent, the key is free again.
	ClassRelease = rpcsafe.ClassRelease
	// ClassAmbiguous: something may have happened; Options.Ambiguous decides.
	ClassAmbiguous = rpcsafe.ClassAmbiguous
)

// ClassFunc tells the class of a code; that of success is 0.
type ClassFunc func(connect.Code) Class

// ThreeClasses is the default: codes that assert that nothing happened (UNAVAILABLE, RESOURCE_EXHAUSTED, UNAUTHENTICATED,
// PERMISSION_DENIED, ABORTED) release; UNKNOWN, INTERNAL, DATA_LOSS, DEADLINE_EXCEEDED and CANCELLED are ambiguous; all others are stored.
func ThreeClasses(c connect.Code) Class { return rpcsafe.ThreeClasses(code.Code(c)) }

// AmbiguousPolicy says what becomes of an ambiguous answer's key.
type AmbiguousPolicy = rpcsafe.AmbiguousPolicy

// The policies.
const (
	// AmbiguousStore keeps and replays the answer: the operation never runs twice.
	AmbiguousStore = rpcsafe.AmbiguousStore
	// AmbiguousRelease frees the key. Only for operations that may run twice, or that undo all they did before they fail.
	AmbiguousRelease = rpcsafe.AmbiguousRelease
	// AmbiguousUnknown abandons the key: the Guard's policy for abandoned keys decides what a retry gets.
	AmbiguousUnknown = rpcsafe.AmbiguousUnknown
)

// FingerprintMethod says what tells two requests with the same key apart. The method that is called always counts, the field that carries
// the key never does.
type FingerprintMethod = rpcsafe.FingerprintMethod

// FingerprintMessage compares whole messages, fields that the server does not know included. How a message is written is the same for one
// version of the protobuf library only, so that its version is a part of the algorithm's name: during an upgrade, requests are not
// compared with those that another version has recorded. Servers that run several versions for long use FingerprintFields.
func FingerprintMessage() FingerprintMethod { return rpcsafe.FingerprintMessage() }

// FingerprintExcept compares messages but for these fields: timestamps, trace IDs, and what else may change from one retry to the next.
func FingerprintExcept(fields ...string) FingerprintMethod {
	return rpcsafe.FingerprintExcept(fields...)
}

// FingerprintFields compares these fields, which name all that makes one request differ from another. Fields that are numbers, text or
// bytes are compared across all versions of the protobuf library.
func FingerprintFields(fields ...string) FingerprintMethod {
	return rpcsafe.FingerprintFields(fields...)
}

// FingerprintFunc compares what f makes of a request. name names f; change it whenever f changes, so that old records are not compared
// with new requests.
func FingerprintFunc(name string, f func(method string, request proto.Message) string) FingerprintMethod {
	return rpcsafe.FingerprintFunc(name, f)
}

// FingerprintNone compares methods only: the first message with a key decides for all.
func FingerprintNone() FingerprintMethod { return rpcsafe.FingerprintNone() }
