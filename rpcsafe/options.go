package rpcsafe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/keytext"
	"github.com/retrysafe/retrysafe/internal/tagplace"
)

// Options of a Server. Options{} works: keys come in the metadata idempotency-key, no method requires one, and all
// unary methods are guarded.
//
// Lists of methods hold full names, such as "shop.v1.Payments/Create"; "shop.v1.Payments/*" stands for all methods of
// a service and "*" for all methods. Names of metadata are compared without regard to case.
type Options struct {
	// KeyHeader is the metadata entry (over Connect: the header) that carries the key, as plain text or as a
	// structured-field string in quotes. Default "idempotency-key".
	KeyHeader string
	// KeyField is a string field of the request that carries the key instead, such as "request_id" (AIP-155), for
	// requests that have the field. Names of nested fields are joined by dots. The key must be a UUID of version 4
	// unless KeyPattern is set. Default: none.
	KeyField string
	// KeyPattern is a pattern that the whole key must match. Default: none.
	KeyPattern *regexp.Regexp
	// MaxKey is the longest key, in bytes. Default 255; at most retrysafe.MaxKeyBytes.
	MaxKey int
	// Methods are the guarded methods. Default: all. Methods without side effects, health checks and reflection are
	// never guarded.
	Methods Methods
	// Required are the methods whose calls are refused without a key. Default: none.
	Required Methods
	// RejectUnsupported refuses a key on methods that are not guarded, and on streams, with UNIMPLEMENTED. Default:
	// such a key is ignored.
	RejectUnsupported bool
	// MaxKeyAge refuses a key that is a UUIDv7 older than this if there is no record of it, because the record may
	// have expired. Default: off.
	MaxKeyAge time.Duration

	// Tags say, for each tag's name, where its value is in a call, so that people find the key by the number of an order:
	// see retrysafe.Tags. A value that is missing, longer than retrysafe.MaxTagValueBytes or not a text that a tag may have
	// is left out; no call is refused for it. The tags of the first call with a key are kept, if the store keeps tags. At
	// most retrysafe.MaxTags. Default: none.
	Tags map[string]TagPlace

	// ScopeVersion is put in front of the scope, so that deployments whose requests differ in shape do not share
	// keys. Default: none.
	ScopeVersion string
	// Fingerprint decides which requests count as different. Default FingerprintMessage().
	Fingerprint FingerprintMethod
	// Secret makes fingerprints HMACs, so that a reader of the store cannot guess requests from them. Default: plain
	// hashes.
	Secret []byte
	// QuotaFunc may refuse a call with RESOURCE_EXHAUSTED before its key is claimed. Keys that have ended still get
	// their answers, and those in flight are refused as in flight at once. Default: none.
	QuotaFunc QuotaFunc

	// Class decides what an answer means for its key. Default: ThreeClasses, except that UNAVAILABLE is ambiguous without
	// a RetryInfo, because it may be that of a connection to another service which broke after the effect.
	Class ClassFunc
	// Ambiguous decides what an ambiguous answer means for its key. Default: retrysafe.AmbiguousStore if the Guard
	// refuses abandoned keys, and retrysafe.AmbiguousUnknown if it resumes them (Rerun, Reconcile).
	Ambiguous retrysafe.AmbiguousPolicy
	// KeepHeaders are names of header and trailer metadata that are stored and replayed although they are dropped by
	// default. DropHeaders are not stored although they are by default.
	KeepHeaders, DropHeaders []string

	// InFlightUnavailable refuses a call whose key is in flight with UNAVAILABLE instead of ABORTED, so that a client
	// whose service config retries UNAVAILABLE needs no other change.
	InFlightUnavailable bool
	// Marker is the header entry that is set to "true" on replays. Default "idempotent-replayed".
	Marker string
	// Domain is the domain of the ErrorInfo in refusals. Default "github.com/retrysafe/retrysafe".
	Domain string
	// PolicyURL is a page that explains the rules to clients. Refusals link to it. Default: none.
	PolicyURL string
}

// QuotaFunc reports how long a caller that has used up its quota should wait before the next call; 0 lets the call
// through.
type QuotaFunc func(ctx context.Context, method, scope string) (retryAfter time.Duration)

// The defaults of Options.KeyHeader, Options.Marker and Options.Domain.
const (
	defaultKeyHeader = "idempotency-key"
	defaultMarker    = "idempotent-replayed"
	defaultDomain    = "github.com/retrysafe/retrysafe"
)

// Validate returns all faults of the options as one error, nil if there are none.
func (o Options) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range append([]string{o.KeyHeader, o.Marker}, append(o.KeepHeaders, o.DropHeaders...)...) {
		if name != "" && !isName(name) {
			fail("%q is not a valid name of metadata", name)
		}
	}
	if isBinary(o.KeyHeader) {
		fail("KeyHeader %s: names that end in -bin carry bytes, and a key is text", o.KeyHeader)
	}
	if o.KeyField != "" && !isPath(o.KeyField) {
		fail("KeyField %q is not a field: write its name, or names joined by dots", o.KeyField)
	}
	if o.MaxKey > retrysafe.MaxKeyBytes {
		fail("MaxKey is %d bytes: at most %d are possible", o.MaxKey, retrysafe.MaxKeyBytes)
	}
	if o.MaxKeyAge > 0 && o.MaxKeyAge < time.Millisecond {
		fail("MaxKeyAge is %v; it must be at least 1ms (is the unit missing, as in 24*time.Hour?)", o.MaxKeyAge)
	}
	if err := tagplace.Validate(o.Tags, TagPlace.Validate); err != nil {
		fail("Tags: %w", err)
	}
	for _, m := range o.Required {
		if o.Methods != nil && !o.Methods.have(m) {
			fail("Required has %q, which Methods do not guard: calls without a key would pass", m)
		}
	}
	errs = append(errs, o.Methods.validate(), o.Required.validate(), o.Fingerprint.err)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("rpcsafe: %w", err)
	}
	return nil
}

// CheckMethods returns an error if Methods or Required name a method or a service that is not in known, the full names of
// the methods that the server has: it is misspelt, and guards nothing.
func (o Options) CheckMethods(known []string) error {
	var errs []error
	for _, m := range append(o.Methods[:len(o.Methods):len(o.Methods)], o.Required...) {
		if !slices.ContainsFunc(known, Methods{m}.have) {
			errs = append(errs, fmt.Errorf("rpcsafe: the server has no method %q; it has %s", m, strings.Join(known, ", ")))
		}
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	o.KeyHeader = strings.ToLower(cmp.Or(o.KeyHeader, defaultKeyHeader))
	o.Marker = strings.ToLower(cmp.Or(o.Marker, defaultMarker))
	o.Domain = cmp.Or(o.Domain, defaultDomain)
	if o.Methods == nil {
		o.Methods = Methods{"*"}
	}
	if o.Fingerprint.name == "" {
		o.Fingerprint = FingerprintMessage()
	}
	return o
}

// headerSyntax returns the syntax of keys in metadata.
func (o Options) headerSyntax() keytext.Syntax {
	return keytext.Syntax{Max: o.MaxKey, Pattern: o.KeyPattern}.WithDefaults()
}

// fieldSyntax returns the syntax of keys in a field of the request. AIP-155 asks for random UUIDs.
func (o Options) fieldSyntax() keytext.Syntax {
	s := keytext.Syntax{Form: keytext.UUID4}
	if o.KeyPattern != nil {
		s = keytext.Syntax{Form: keytext.Text, Max: o.MaxKey, Pattern: o.KeyPattern}
	}
	return s.WithDefaults()
}

func isName(s string) bool {
	for i := range len(s) {
		if !keytext.IsFieldNameChar(s[i]) {
			return false
		}
	}
	return s != ""
}

// isBinary reports whether a metadata entry carries bytes.
func isBinary(name string) bool { return strings.HasSuffix(strings.ToLower(name), "-bin") }

func isPath(s string) bool {
	for name := range strings.SplitSeq(s, ".") {
		if !protoreflect.Name(name).IsValid() {
			return false
		}
	}
	return true
}
