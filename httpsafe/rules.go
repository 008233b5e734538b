package httpsafe

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Rules are what a Middleware does with the requests of one route: Options, Profile and Policy with all defaults, by
// value. They marshal to the JSON that [PolicyPage] publishes for clients.
type Rules struct {
	// Route is the pattern, as people should read it.
	Route string `json:"route"`
	// Profile is its name.
	Profile string `json:"profile"`
	// Key and KeySyntax say in words where the key is and what it looks like.
	Key       string `json:"key"`
	KeySyntax string `json:"key_syntax"`
	// Required: a request without a key is refused.
	Required bool `json:"required"`
	// Signed: a request that Options.VerifyFunc does not verify is refused.
	Signed bool `json:"signed,omitempty"`
	// Methods that are guarded.
	Methods []string `json:"methods"`
	// KeyScope says in words whose a key is: ScopeRoute adds the route to the caller.
	KeyScope   string `json:"key_scope"`
	ScopeRoute bool   `json:"-"`
	// Fingerprint says in words what requests are compared by.
	Fingerprint string `json:"fingerprint"`
	// MaxRequestBytes and MaxResponseBytes limit bodies that are read, and responses that are kept.
	MaxRequestBytes  int64 `json:"max_request_bytes"`
	MaxResponseBytes int64 `json:"max_response_bytes"`
	// ReplaySeconds is how long a response is replayed, KeySeconds how long its key stays taken.
	ReplaySeconds int64 `json:"replay_seconds"`
	KeySeconds    int64 `json:"key_seconds"`
	// FailureReplaySeconds and FailureKeySeconds are the same for responses of 400 and above.
	FailureReplaySeconds int64 `json:"failure_replay_seconds"`
	FailureKeySeconds    int64 `json:"failure_key_seconds"`
	// MaxKeyAgeSeconds is the age from which on a UUIDv7 without a record is refused; 0: no limit. A profile with
	// FirstSent has its own rule.
	MaxKeyAgeSeconds int64 `json:"max_key_age_seconds,omitempty"`
	// InFlight says in words what a request gets while another one with its key runs.
	InFlight string `json:"in_flight"`
	// The statuses of each Class, as ranges: "200-299, 404".
	StatusesStored    string `json:"statuses_stored"`
	StatusesReleased  string `json:"statuses_released"`
	StatusesAmbiguous string `json:"statuses_ambiguous"`
	// Ambiguous is what becomes of ambiguous responses, and AmbiguousPolicy the same in words.
	Ambiguous       retrysafe.AmbiguousPolicy `json:"-"`
	AmbiguousPolicy string                    `json:"ambiguous_policy"`
	// Echo are members of a replayed body that are the new request's.
	Echo []string `json:"echo,omitempty"`
	// Redacted are values in the bodies of replays that are not those of the first response: see Profile.Redact.
	Redacted []string `json:"redacted,omitempty"`
	// Marker is the header set to "true" on replays; empty: none.
	Marker string `json:"marker,omitempty"`

	// Headers that carry the key, in their canonical form. HeaderOnly: a request with none of them has no key.
	Headers    []string `json:"-"`
	HeaderOnly bool     `json:"-"`
	// Problems that requests of the route may be refused with, with their final status and type.
	Problems []Problem `json:"-"`
}

// Rules returns what a Middleware with these options and a Guard of policy p does; what is not set in either has its
// default. route is for people. extra are problems that the route may answer with besides the middleware's own.
func (o Options) Rules(route string, p retrysafe.Policy, extra ...Problem) Rules {
	o, p = o.WithDefaults(), p.WithDefaults()
	o.Ambiguous = o.ambiguous(p)
	rules := Rules{
		Route:            route,
		Profile:          o.Profile.Name,
		Key:              carrier(o),
		KeySyntax:        o.Profile.KeySyntax.String(),
		Required:         o.Required,
		Signed:           o.VerifyFunc != nil,
		Methods:          o.Profile.Methods,
		KeyScope:         keyScope(o),
		ScopeRoute:       o.Profile.ScopeRoute,
		Fingerprint:      o.Fingerprint.String(),
		MaxRequestBytes:  o.MaxRequestBody,
		MaxResponseBytes: int64(p.MaxResult),
		ReplaySeconds:    int64(p.Retention.Replay / time.Second),
		KeySeconds:       int64(p.Retention.Key / time.Second),

		FailureReplaySeconds: int64(p.FailureRetention.Replay / time.Second),
		FailureKeySeconds:    int64(p.FailureRetention.Key / time.Second),

		InFlight:          inFlight(o, p),
		StatusesStored:    statuses(o.statusClass, retrysafe.ClassStore),
		StatusesReleased:  statuses(o.statusClass, retrysafe.ClassRelease),
		StatusesAmbiguous: statuses(o.statusClass, retrysafe.ClassAmbiguous),
		Ambiguous:         o.Ambiguous,
		AmbiguousPolicy:   ambiguous(o, p),
		Echo:              o.Profile.EchoFields,
		Redacted:          o.Profile.Redact,
		Marker:            o.Profile.Marker,
		Headers:           o.Profile.Headers(),
		HeaderOnly:        o.KeySource == nil,
	}
	if o.Profile.FirstSent == "" {
		rules.MaxKeyAgeSeconds = int64(max(o.MaxKeyAge, 0) / time.Second)
	}
	if o.Profile.RefuseReplays {
		extra = append(extra[:len(extra):len(extra)], *alreadyCreated(Replayed{}))
	}
	if o.Inbox != nil {
		extra = append(extra[:len(extra):len(extra)], o.Inbox.Problems()...)
	}
	for _, p := range append(allProblems(), extra...) {
		rules.Problems = append(rules.Problems, p.under(o.Profile, o.PolicyURL))
	}
	return rules
}

// Guards reports whether requests of a method are guarded.
func (r Rules) Guards(method string) bool { return slices.Contains(r.Methods, method) }

// MayHaveKey reports whether a request is guarded and seems to carry a key: a header that carries keys is there,
// whatever it holds, or the key is found elsewhere, which takes the body to know.
func (r Rules) MayHaveKey(request *http.Request) bool {
	return r.Guards(request.Method) && (!r.HeaderOnly || hasAny(request.Header, r.Headers))
}

// hasAny reports whether at least one of the headers is there. Their names are canonical.
func hasAny(h http.Header, names []string) bool {
	for _, name := range names {
		if len(h[name]) > 0 {
			return true
		}
	}
	return false
}

// carrier says in words where the key is.
func carrier(o Options) string {
	switch k := o.KeySource.(type) {
	case nil:
		return "header " + strings.Join(append([]string{o.Profile.Header}, o.Profile.Aliases...), " or ")
	case KeyInBody:
		return strings.TrimSpace("body " + k.Pointer + " query " + k.Query)
	case NaturalKey:
		return "made from the request: " + strings.Join(append(k.PathValues, k.Fields...), ", ")
	case BodyHash:
		return "made from the body"
	}
	return fmt.Sprintf("%T", o.KeySource)
}

// keyScope says in words whom a key belongs to.
func keyScope(o Options) string {
	switch {
	case o.Profile.ScopeRoute && o.Profile.ScopePath:
		return "caller and path"
	case o.Profile.ScopeRoute:
		return "caller and route"
	}
	return "caller"
}

// inFlight says in words what a request gets while another one with its key runs.
func inFlight(o Options, p retrysafe.Policy) string {
	text := "refused"
	if o.InFlightStatus {
		text = "202 with the address of the status"
	}
	if p.OnInFlight != retrysafe.Reject() {
		text = p.OnInFlight.String() + ", then " + text
	}
	return text
}

// ambiguous says in words what becomes of ambiguous responses.
func ambiguous(o Options, p retrysafe.Policy) string {
	text := [...]string{"", "stored", "released", "outcome unknown"}[o.Ambiguous]
	if o.Ambiguous == retrysafe.AmbiguousUnknown && p.OnAbandoned.Resumes() {
		text += ", a retry resumes it"
	}
	return text
}

// statuses lists the statuses of a class, as ranges.
func statuses(f ClassFunc, class retrysafe.Class) string {
	var ranges []string
	for from := 200; from < 600; from++ {
		if f(from) != class {
			continue
		}
		to := from
		for to < 599 && f(to+1) == class {
			to++
		}
		text := strconv.Itoa(from)
		if to > from {
			text += "-" + strconv.Itoa(to)
		}
		ranges, from = append(ranges, text), to
	}
	return strings.Join(ranges, ", ")
}
