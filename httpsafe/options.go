package httpsafe

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/keytext"
)

// Options of a Middleware. Options{} works: the IETF profile, keys not required, raw fingerprints.
type Options struct {
	// Profile words headers, syntax, statuses and errors. Default IETF().
	Profile Profile

	// Header that carries the key, instead of the profile's; Aliases are accepted too, beside the profile's.
	Header  string
	Aliases []string
	// KeySyntax instead of the profile's.
	KeySyntax KeySyntax
	// KeySource finds the key. Default: the header, or what the profile has instead of one.
	KeySource KeySource
	// Required refuses requests without a key.
	Required bool
	// Methods that are guarded, instead of the profile's, in capitals. Safe methods never are. nil: the profile's.
	Methods []string
	// RejectUnsupported refuses a key on other methods with 501, unless the method is safe. Default: it is ignored, and
	// Idempotency-Status says so.
	RejectUnsupported bool
	// MaxKeyAge refuses a key that is a UUIDv7 older than this if nothing is known of it: its record may have been
	// forgotten. Default: off.
	MaxKeyAge time.Duration
	// AllowEarlyData lets requests pass that were sent as TLS early data. They may be replays by an attacker: only
	// with one store, shared by all servers, is that safe. Default: they are refused with 425.
	AllowEarlyData bool

	// ScopeRoute adds method and route to the scope: the same key on another route is another key. Default: it is a
	// mismatch.
	ScopeRoute bool
	// Route names the operation. Default: the pattern that http.ServeMux matched, or the path if there is none.
	Route string
	// ScopeVersion is put in front of the scope, so that deployments whose requests differ in shape do not collide.
	ScopeVersion string

	// Fingerprint tells different requests apart. Default FingerprintRaw().
	Fingerprint FingerprintMethod
	// FingerprintHeaders are headers that count, beside those that always do.
	FingerprintHeaders []string
	// FingerprintVersion names how requests are handled, where that matters to their records. Requests are not compared
	// with records that were made under another version, and FingerprintVersionOf tells a ReconcileFunc which version the
	// abandoned attempt was made under. Letters, digits, "-" and "_". Default: none.
	FingerprintVersion string
	// Secret makes fingerprints HMACs, so that a reader of the store cannot guess requests from them.
	Secret []byte
	// MaxRequestBody bounds bodies that are read for a fingerprint or a key, in bytes. Default 1 MiB.
	MaxRequestBody int64
	// QuotaFunc may refuse a request before its key is claimed. Default: none.
	QuotaFunc QuotaFunc
	// MemoryFunc bounds what the bodies and answers of all requests hold in memory together. Default: no bound.
	MemoryFunc MemoryFunc

	// Class tells which responses are kept, instead of the profile's.
	Class ClassFunc
	// Ambiguous says what becomes of ambiguous responses. Default: AmbiguousStore if the Guard refuses abandoned keys,
	// and AmbiguousUnknown if it goes on with them (Rerun, Reconcile): work that may be entered again after a crash may
	// be entered again after a 500.
	Ambiguous AmbiguousPolicy
	// BufferFlushes keeps the response of a handler that flushes, unless it is an event stream. Default: what is
	// flushed reaches the client at once, and the response is not replayable.
	BufferFlushes bool
	// KeepHeaders are stored and replayed although they are dropped by default; DropHeaders are not, although they
	// are kept by default.
	KeepHeaders, DropHeaders []string

	// Marker is the header set to "true" on replays, instead of the profile's.
	Marker string
	// HideStatusHeader leaves Idempotency-Status out, HideKeyEcho the key's header in responses. Without HideStatusHeader a replay that
	// lacks its body says so in Idempotency-Status, in profiles too that do not have that header otherwise.
	HideStatusHeader, HideKeyEcho bool
	// OriginalRequestHeader is set, on replays, to the ID of the request that ran (its X-Request-Id). Default: the
	// profile's, or none.
	OriginalRequestHeader string
	// Location303 answers a retry whose response was not kept with 303 See Other, if its Location is known.
	Location303 bool

	// StatusPath is the path under which a StatusHandler is served, such as "/.well-known/idempotency-status". Needed
	// for InFlightStatus and RespondAsync.
	StatusPath string
	// InFlightStatus answers a request in flight with 202 and the Location of its status, instead of 409.
	InFlightStatus bool
	// RespondAsync lets clients ask, with "Prefer: respond-async", for 202 and the Location of the status at once,
	// while the handler goes on.
	RespondAsync bool

	// PolicyURL is where PolicyPage is served: the type of every problem is a fragment of it. Make it absolute.
	// Default "/.well-known/idempotency-policy".
	PolicyURL string
}

// QuotaFunc reports how long a caller that has used up its quota should wait; 0 lets the request through.
type QuotaFunc func(r *http.Request, scope string) (retryAfter time.Duration)

const (
	defaultMaxRequestBody = 1 << 20
	defaultPolicyURL      = "/.well-known/idempotency-policy"

	versionChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
)

// Validate reports what is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("httpsafe: "+format, args...)) }
	o = o.withDefaults()
	if len(o.Methods) == 0 {
		fail("Methods is empty, so that nothing is guarded; leave it nil for those of the profile")
	}
	for _, m := range o.Methods {
		switch {
		case !isMethod(m):
			fail("method %q matches no request: methods are written in capitals, as in POST", m)
		case isSafe(m):
			fail("method %s is safe: it needs no key", m)
		}
	}
	for _, list := range [][]string{{o.Header, o.Marker, o.OriginalRequestHeader}, o.Aliases, o.FingerprintHeaders, o.KeepHeaders, o.DropHeaders} {
		for _, name := range list {
			if name != "" && !isFieldName(name) {
				fail("%q is no header's name", name)
			}
		}
	}
	if s := o.KeySyntax; s.Max > retrysafe.MaxKeyBytes || s.Min > s.Max || s.Form > Text {
		fail("keys of %d to %d bytes (form %d): at most %d are possible", s.Min, s.Max, s.Form, retrysafe.MaxKeyBytes)
	}
	if strings.Trim(o.FingerprintVersion, versionChars) != "" {
		fail("FingerprintVersion %q: use letters, digits, \"-\" and \"_\" only", o.FingerprintVersion)
	}
	if o.InFlightStatus && o.StatusPath == "" || o.RespondAsync && o.StatusPath == "" {
		fail("InFlightStatus and RespondAsync need a StatusPath")
	}
	if o.KeySource == nil && o.Header == "" {
		fail("no header is named, and no other KeySource is set")
	}
	if v, ok := o.KeySource.(interface{ validate() error }); ok {
		errs = append(errs, v.validate())
	}
	errs = append(errs, o.Fingerprint.err)
	return errors.Join(errs...)
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	if o.Profile.Name == "" {
		o.Profile = IETF()
	}
	p := o.Profile
	if o.Header == "" {
		o.Header = p.Header
	}
	o.Aliases = append(slices.Clone(p.Aliases), o.Aliases...)
	if o.KeySyntax == (KeySyntax{}) {
		o.KeySyntax = p.KeySyntax
	}
	o.KeySyntax = o.KeySyntax.WithDefaults()
	if h, ok := o.KeySource.(HeaderKey); ok {
		o.Header, o.Aliases, o.KeySource = h.Header, h.Aliases, nil
	} else if o.KeySource == nil && (p.BodyField != "" || p.QueryField != "") {
		o.KeySource = KeyInBody{Pointer: p.BodyField, Query: p.QueryField}
	}
	o.Required = o.Required || p.Required
	if o.Methods == nil {
		o.Methods = p.Methods
	}
	o.RejectUnsupported = o.RejectUnsupported || p.RejectUnsupported
	o.ScopeRoute = o.ScopeRoute || p.ScopeRoute
	if o.Fingerprint.isZero() {
		o.Fingerprint = FingerprintRaw()
		if p.IgnoreBody {
			o.Fingerprint = fingerprintIgnored()
		}
	}
	if o.MaxRequestBody <= 0 {
		o.MaxRequestBody = defaultMaxRequestBody
	}
	if o.Class == nil {
		o.Class = p.Class
	}
	if o.Class == nil {
		o.Class = ThreeClasses
	}
	if o.Marker == "" {
		o.Marker = p.Marker
	}
	if o.OriginalRequestHeader == "" {
		o.OriginalRequestHeader = p.OriginalHeader
	}
	if o.PolicyURL == "" {
		o.PolicyURL = defaultPolicyURL
	}
	return o
}

// isMethod reports whether a method is written as all registered ones are. Methods are compared with regard to case.
func isMethod(method string) bool {
	return isFieldName(method) && strings.ToUpper(method) == method
}

func isFieldName(name string) bool {
	for i := range len(name) {
		if !keytext.IsFieldNameChar(name[i]) {
			return false
		}
	}
	return name != ""
}
