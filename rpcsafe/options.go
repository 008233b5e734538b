package rpcsafe

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/keytext"
)

// Options of a Server. The adapters' Options have the same fields, and document them.
type Options struct {
	Adapter string // its package, for errors

	KeyHeader, KeyField string
	KeyPattern          *regexp.Regexp
	MaxKey              int
	Methods, Required   Methods
	RejectUnsupported   bool
	MaxKeyAge           time.Duration

	ScopeMethod  bool
	ScopeVersion string
	Fingerprint  FingerprintMethod
	Secret       []byte
	QuotaFunc    func(ctx context.Context, method, scope string) (retryAfter time.Duration)

	Class                    func(code.Code) Class
	Ambiguous                AmbiguousPolicy
	KeepHeaders, DropHeaders []string
	Types                    protoregistry.MessageTypeResolver

	InFlightUnavailable bool
	Marker              string
	Domain, PolicyURL   string
}

// What is not set.
const (
	DefaultKeyHeader = "idempotency-key"
	DefaultMarker    = "idempotent-replayed"
	DefaultDomain    = "github.com/retrysafe/retrysafe"
)

// Validate reports what is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range append([]string{o.KeyHeader, o.Marker}, append(o.KeepHeaders, o.DropHeaders...)...) {
		if name != "" && !isName(name) {
			fail("%q is no metadata's name", name)
		}
	}
	if strings.HasSuffix(strings.ToLower(o.KeyHeader), "-bin") {
		fail("%s would carry bytes: a key is text", o.KeyHeader)
	}
	if o.KeyField != "" && !isPath(o.KeyField) {
		fail("KeyField %q is no field: write its name, or names with dots between them", o.KeyField)
	}
	if o.MaxKey > retrysafe.MaxKeyBytes {
		fail("keys of %d bytes: at most %d are possible", o.MaxKey, retrysafe.MaxKeyBytes)
	}
	errs = append(errs, o.Methods.validate(), o.Required.validate(), o.Fingerprint.err)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", o.Adapter, err)
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.KeyHeader = strings.ToLower(orElse(o.KeyHeader, DefaultKeyHeader))
	o.Marker = strings.ToLower(orElse(o.Marker, DefaultMarker))
	o.Domain = orElse(o.Domain, DefaultDomain)
	if o.Methods == nil {
		o.Methods = Methods{"*"}
	}
	if o.Fingerprint.name == "" {
		o.Fingerprint = FingerprintMessage()
	}
	if o.Class == nil {
		o.Class = ThreeClasses
	}
	if o.Types == nil {
		o.Types = protoregistry.GlobalTypes
	}
	return o
}

// resumes reports whether a retry goes on with an abandoned key.
func resumes(p retrysafe.Policy) bool { return p.OnAbandoned.String() != retrysafe.Refuse().String() }

// headerSyntax is how keys in metadata are written.
func (o Options) headerSyntax() keytext.Syntax {
	return keytext.Syntax{Max: o.MaxKey, Pattern: o.KeyPattern}.WithDefaults()
}

// fieldSyntax is how keys in a field of the request are written: AIP-155 asks for random UUIDs.
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

func isPath(s string) bool {
	for name := range strings.SplitSeq(s, ".") {
		if !protoreflect.Name(name).IsValid() {
			return false
		}
	}
	return true
}

func orElse[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}
