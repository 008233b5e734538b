package httpsafe

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/internal/keytext"
	"github.com/retrysafe/retrysafe/internal/tagplace"
)

// Options of a Middleware: what one deployment chooses. How keys, answers and refusals look on the wire, and which
// statuses and headers are kept, is in the Profile. Options{} works: the IETF profile, keys not required, bodies
// compared byte for byte.
type Options struct {
	// VerifyFunc verifies each request with a guarded method before anything else, by a signature for example: see
	// package signature. It also gets requests without a key, whose bodies are then read, up to MaxRequestBody. Requests
	// with other methods are not verified. Default: none.
	VerifyFunc VerifyFunc

	// Profile is the family of APIs whose conventions are followed: key header, statuses, error bodies. For a rare
	// need copy a profile and change the copy. Default IETF().
	Profile Profile

	// KeySource finds keys elsewhere than where the Profile has them, or makes them from the request. Default: none.
	KeySource KeySource
	// Required refuses requests without a key, also where the Profile lets them pass. It guards PUT and DELETE too, which
	// most profiles leave alone, unless Profile.Methods was changed.
	Required bool
	// MaxKeyAge refuses a UUIDv7 key that is older than this and has no record: the record may have been deleted.
	// Default: no limit.
	MaxKeyAge time.Duration

	// Route names the operation, for Profile.ScopeRoute. Default: the pattern that http.ServeMux matched, or the path
	// if there is none.
	Route string
	// ScopeVersion begins the scope of every key. Change it when a deployment handles requests of another shape, so
	// that keys of the two do not collide. Default: none.
	ScopeVersion string

	// Fingerprint chooses what two requests with the same key are compared by. Default: as the Profile, FingerprintRaw()
	// for most.
	Fingerprint FingerprintMethod
	// FingerprintHeaders are compared too, besides the headers that always are.
	FingerprintHeaders []string
	// AnyHost leaves the host out of what is compared, for clients that fall back from one host of a service to another,
	// as from api-eu to api. All of these hosts must mean the same by a request. Default: the host is compared.
	AnyHost bool
	// FingerprintVersion is recorded with each fingerprint. Requests are not compared with records of another version,
	// and FingerprintVersionOf tells a ReconcileFunc which version an abandoned attempt had. It consists of letters,
	// digits, "-" and "_". Default: none.
	FingerprintVersion string
	// Secret makes fingerprints HMACs, so that a reader of the store cannot guess requests from them. Default: none.
	Secret []byte
	// Tags say, for each tag's name, where its value is in a request, so that people find the key by the number of an
	// order: see retrysafe.Tags. A value that is missing, longer than retrysafe.MaxTagValueBytes or not a text that a tag
	// may have is left out. The tags of the first request with a key are kept, if the store keeps tags.
	// Default: none.
	Tags map[string]TagPlace
	// MaxRequestBody limits bodies that are read for a fingerprint or a key, in bytes. Longer ones are refused with
	// 413. Default 1 MiB.
	MaxRequestBody int64
	// QuotaFunc may refuse a request before its key is claimed. Default: none.
	QuotaFunc QuotaFunc
	// MemoryFunc limits the memory that bodies and answers of all requests hold together. Default: no limit.
	MemoryFunc MemoryFunc

	// Ambiguous says what becomes of ambiguous responses. The default depends on the
	// Guard and the Profile: see retrysafe.AmbiguousPolicy.Or and Profile.Ambiguous.
	Ambiguous retrysafe.AmbiguousPolicy
	// TrustUnavailable classifies 503 and 408 as the profile does: most free the key. Default: they do so only with a
	// Retry-After, and are ambiguous without, because they may have been sent while or after the work had its effect: by
	// http.TimeoutHandler, a framework's timeout, or a gateway in front of the service. 502 and 504 are always ambiguous.
	// A handler that knows that nothing happened calls Release, whatever it answers.
	TrustUnavailable bool
	// CompletedElsewhere says that the handler hands the work over to a service, which completes the key in its own
	// database transaction: through the SQL functions of pgstore or mysqlstore, with the token of the attempt's lease
	// (retrysafe.Lease.Token of AttemptFrom(ctx).Control().Lease()). Then the record decides what the client gets. If the
	// key was completed, that is the stored response, for the first caller as for every retry, whatever the handler has
	// written. Otherwise the handler's response counts as usual. A handler whose service gave no answer calls Ambiguous.
	// Responses are never streamed, because the record decides only after the handler has returned.
	//
	// Ambiguous is retrysafe.AmbiguousRelease then, unless it is set: releasing the key refuses whatever the service does
	// later, so nothing has happened. The Guard's Policy should be one of retrysafe.Policy.CompletedElsewhere.
	CompletedElsewhere bool
	// Attempts is how often the handler runs at most for one request if it calls Ambiguous and CompletedElsewhere is set:
	// each time after the key was released, and under a claim of its own. Default 1.
	Attempts int
	// BufferFlushes keeps the response of a handler that flushes, unless it is an event stream. Default: flushed bytes
	// reach the client at once, and the response is not replayable.
	BufferFlushes bool

	// StatusPath is the path under which a StatusHandler is served, such as "/.well-known/idempotency-status".
	// InFlightStatus and RespondAsync need it.
	StatusPath string
	// InFlightStatus answers a request in flight with 202 and the Location of its status, instead of 409.
	InFlightStatus bool
	// RespondAsync lets clients ask, with "Prefer: respond-async", for 202 and the Location of the status at once,
	// while the handler goes on.
	RespondAsync bool

	// Inbox answers requests with 202 and the Location of their status as soon as it has saved them, before the handler
	// runs. The handler runs when the Inbox delivers them: see package inbox. A repeated request gets the same answer, and
	// is not saved again. Keys are required then, and StatusPath must be set. With "Prefer: wait=10" a client waits up to
	// ten seconds for the final answer, a minute at most. While the store fails, requests wait, also under
	// retrysafe.FailOpen. Default: none, and the handler runs at once.
	Inbox Inbox
	// InboxWait is how long a request without such a preference waits for its final answer, before it gets 202. Default: it
	// does not wait.
	InboxWait time.Duration
	// InboxAnswer takes the place of the 202, for senders that want another answer. A client that sends Prefer gets 202.
	InboxAnswer InboxAnswer

	// PolicyURL is where PolicyPage is served: the type of every problem is a fragment of it. Make it absolute.
	// Default "/.well-known/idempotency-policy".
	PolicyURL string
	// KeyPages begins the URL of a page about each key, such as "https://ops.example.com/keys/" of a dashboard; the key's
	// digest follows. Then that URL is the instance of refusals (RFC 9457, section 3.1.5). Default: a URN.
	KeyPages string
}

// Instance returns the instance of refusals because of a key: "urn:retrysafe:key:", or KeyPages, and the key's digest.
func (o Options) Instance(k retrysafe.Key) string {
	if o.KeyPages != "" {
		return o.KeyPages + k.String()
	}
	return "urn:retrysafe:key:" + k.String()
}

// Headers in which a handler hands an attempt over to a service that completes the key: see
// [Options.CompletedElsewhere]. They are never part of a stored response.
const (
	// LeaseHeader carries the token of the lease: see retrysafe.Lease.Token.
	LeaseHeader = "Retrysafe-Lease"
	// AttemptHeader carries the number of the attempt: see retrysafe.Attempt.Number.
	AttemptHeader = "Retrysafe-Attempt"
)

// QuotaFunc returns how long a caller that has used up its quota should wait; 0 lets the request through. It is called
// before the key is claimed, and must be safe for concurrent use.
type QuotaFunc func(r *http.Request, scope string) (retryAfter time.Duration)

const (
	defaultMaxRequestBody = 1 << 20
	defaultPolicyURL      = "/.well-known/idempotency-policy"

	versionChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
)

// Validate returns every fault in the options and their Profile, joined.
func (o Options) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("httpsafe: "+format, args...)) }
	o = o.WithDefaults()
	p := o.Profile
	if len(p.Methods) == 0 {
		fail("Profile.Methods is empty, so that nothing is guarded; copy a profile such as IETF() and change the copy")
	}
	for _, m := range p.Methods {
		switch {
		case !isMethod(m):
			fail("method %q matches no request: methods are written in capitals, as in POST", m)
		case httpkey.IsSafe(m):
			fail("method %s is safe: it needs no key", m)
		}
	}
	for _, name := range slices.Concat(p.Headers(), p.ownHeaders(), o.FingerprintHeaders, p.KeepHeaders, p.DropHeaders) {
		if name != "" && !isFieldName(name) {
			fail("%q is not a valid header name", name)
		}
	}
	if s := p.KeySyntax; s.Max > retrysafe.MaxKeyBytes || s.Min > s.Max || s.Form > httpkey.UUID7 {
		fail("keys of %d to %d bytes (form %d): at most %d are possible", s.Min, s.Max, s.Form, retrysafe.MaxKeyBytes)
	}
	if strings.Trim(o.FingerprintVersion, versionChars) != "" {
		fail("FingerprintVersion %q: use letters, digits, \"-\" and \"_\" only", o.FingerprintVersion)
	}
	if o.StatusPath == "" && (o.InFlightStatus || o.RespondAsync || o.Inbox != nil) {
		fail("InFlightStatus, RespondAsync and Inbox need a StatusPath")
	}
	if err := o.InboxAnswer.Validate(); err != nil {
		fail("InboxAnswer: %w", err)
	}
	if o.KeySource == nil && p.Header == "" {
		fail("Profile.Header is empty, and there is no KeySource: requests could not carry a key")
	}
	if f := p.MarkerField; f != "" && !isMember(f) {
		fail("Profile.MarkerField: %q is no JSON pointer to a member", f)
	}
	for _, field := range p.Redact {
		if !isMember(field) {
			fail("Profile.Redact: %q is no JSON pointer to a member; DropBody stores no body at all", field)
		}
	}
	for _, field := range p.EchoFields {
		switch {
		case !isMember(field):
			fail("Profile.EchoFields: %q is no JSON pointer to a member", field)
		case o.Fingerprint.Compares(field):
			fail("Profile.EchoFields: a retry with another %s is a mismatch: leave it out of what is compared, with "+
				"FingerprintFields(fingerprint.Fields{Exclude: []string{%q}})", field, field)
		}
	}
	for _, slug := range slices.Sorted(maps.Keys(p.Statuses)) {
		if s := p.Statuses[slug]; !isRefusal(s) {
			fail("Profile.Statuses: %s has status %d; a refusal has one from 400 to 599", slug, s)
		}
	}
	if !p.Refusal.isZero() {
		_, err := p.Refusal.read(p.Statuses)
		errs = append(errs, err)
	}
	if v, ok := o.KeySource.(interface{ Validate() error }); ok {
		errs = append(errs, v.Validate())
	}
	if o.Attempts < 0 || o.Attempts > 1 && !o.CompletedElsewhere {
		fail("Attempts is %d: it must not be negative, and more than one needs CompletedElsewhere, because otherwise the "+
			"operation could run twice", o.Attempts)
	}
	if o.MaxKeyAge > 0 && o.MaxKeyAge < time.Millisecond {
		fail("MaxKeyAge is %v; it must be at least 1ms (is the unit missing, as in 24*time.Hour?)", o.MaxKeyAge)
	}
	if err := tagplace.Validate(o.Tags, TagPlace.Validate); err != nil {
		fail("Tags: %w", err)
	}
	errs = append(errs, o.Fingerprint.err)
	return errors.Join(errs...)
}

// WithDefaults returns o with what is not set filled in, and with the profile's names of headers in their canonical
// form. Only Ambiguous stays as it is, because its default depends on the Guard: see Rules.
func (o Options) WithDefaults() Options {
	p := &o.Profile
	if reflect.ValueOf(*p).IsZero() {
		*p = IETF()
	}
	p.KeySyntax = p.KeySyntax.WithDefaults()
	o.Required = o.Required || o.Inbox != nil
	if p.Class == nil {
		p.Class = ThreeClasses
	}
	if p.RenderFunc == nil {
		p.RenderFunc = ProblemJSON
		if body, err := p.Refusal.read(p.Statuses); err == nil {
			p.RenderFunc = body.render // the Body is read once
		}
	}
	if p.ReplayFunc == nil && p.RefuseReplays {
		p.ReplayFunc = alreadyCreated
	}
	p.StatusHeader = p.StatusHeader && !p.HideStatus
	for _, name := range []*string{
		&p.FirstSent, &p.Marker, &p.OriginalHeader, &p.AcceptedHeader.Name, &p.RejectedHeader.Name, &p.RetryHeader,
	} {
		*name = http.CanonicalHeaderKey(*name)
	}
	if o.KeySource == nil && (p.BodyField != "" || p.QueryField != "") {
		o.KeySource = KeyInBody{Pointer: p.BodyField, Query: p.QueryField}
	}
	if o.Required {
		p.Methods = p.requiredMethods()
	}
	o.Required = o.Required || p.Required
	if o.Fingerprint.isZero() {
		switch o.Fingerprint = p.Fingerprint; {
		case !o.Fingerprint.isZero():
		case p.IgnoreBody:
			o.Fingerprint = fingerprintIgnored()
		default:
			o.Fingerprint = FingerprintRaw()
		}
	}
	if o.MaxRequestBody <= 0 {
		o.MaxRequestBody = defaultMaxRequestBody
	}
	if o.PolicyURL == "" {
		o.PolicyURL = defaultPolicyURL
	}
	return o
}

// requiredMethods returns the methods that are guarded where a key is required: all that have an effect, unless the
// profile's methods were changed.
func (p Profile) requiredMethods() []string {
	published, err := httpkey.ProfileByName(p.Name)
	if err != nil || !slices.Equal(p.Methods, published.Methods) {
		return p.Methods
	}
	all := slices.Clone(p.Methods)
	for _, m := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

// ambiguous returns what is in force for ambiguous responses under a policy.
func (o Options) ambiguous(p retrysafe.Policy) retrysafe.AmbiguousPolicy {
	if o.CompletedElsewhere && o.Ambiguous == 0 {
		return retrysafe.AmbiguousRelease
	}
	if o.Ambiguous == 0 && !p.OnAbandoned.Resumes() {
		return o.Profile.Ambiguous.Or(p)
	}
	return o.Ambiguous.Or(p)
}

// isMember reports whether a text is a JSON pointer that is not empty.
func isMember(pointer string) bool {
	return pointer != "" && fingerprint.Fields{Include: []string{pointer}}.Validate() == nil
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
