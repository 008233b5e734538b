package httpsafe

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
)

// config is what Options come down to, in the form in which requests need it.
type config struct {
	guard       *retrysafe.Guard
	profile     Profile
	scope       ScopeFunc
	source      KeySource // nil: the header
	syntax      KeySyntax
	headers     []string // canonical names that carry a key, the main one first
	headerOnly  bool     // no header, no key
	methods     []string
	fingerprint *fingerprinter
	fields      *fieldRules
	class       ClassFunc
	quota       QuotaFunc
	memory      MemoryFunc

	scopeRoute          bool
	route, scopeVersion string

	required, rejectUnsupported, allowEarlyData bool
	bufferFlushes, location303                  bool
	inFlightStatus, respondAsync                bool
	statusHeader, hidesStatus, echoKey          bool
	waits                                       bool // the Guard may wait for a key in flight
	resumes                                     bool // the Guard goes on with abandoned keys: a retry gets further

	ambiguous      AmbiguousPolicy
	maxBody        int64
	maxResult      int
	maxKeyAge      time.Duration
	firstSent      string // canonical
	marker         string // canonical; empty: none
	originalHeader string
	accepted       HeaderLine
	rejected       HeaderLine
	retryHeader    string // canonical; empty: none
	policyURL      string
	statusPath     string
}

func newConfig(g *retrysafe.Guard, scope ScopeFunc, o Options) *config {
	o = o.withDefaults()
	c := &config{
		guard:             g,
		profile:           o.Profile,
		scope:             scope,
		source:            o.KeySource,
		syntax:            o.KeySyntax,
		methods:           slices.Clone(o.Methods),
		fingerprint:       newFingerprinter(o),
		fields:            newFieldRules(o),
		class:             o.Class,
		quota:             o.QuotaFunc,
		memory:            o.MemoryFunc,
		scopeRoute:        o.ScopeRoute,
		route:             o.Route,
		required:          o.Required,
		rejectUnsupported: o.RejectUnsupported,
		allowEarlyData:    o.AllowEarlyData,
		bufferFlushes:     o.BufferFlushes,
		location303:       o.Location303,
		inFlightStatus:    o.InFlightStatus,
		respondAsync:      o.RespondAsync,
		statusHeader:      o.Profile.StatusHeader && !o.HideStatusHeader,
		hidesStatus:       o.HideStatusHeader,
		echoKey:           o.Profile.EchoKey && !o.HideKeyEcho,
		waits:             g.Policy().OnInFlight != retrysafe.Reject(),
		resumes:           resumes(g.Policy()),
		ambiguous:         ambiguousPolicy(o, g.Policy()),
		maxBody:           o.MaxRequestBody,
		maxResult:         g.Policy().MaxResult,
		maxKeyAge:         o.MaxKeyAge,
		firstSent:         http.CanonicalHeaderKey(o.Profile.FirstSent),
		marker:            http.CanonicalHeaderKey(o.Marker),
		originalHeader:    http.CanonicalHeaderKey(o.OriginalRequestHeader),
		policyURL:         o.PolicyURL,
		statusPath:        o.StatusPath,
	}
	c.accepted = HeaderLine{http.CanonicalHeaderKey(o.Profile.AcceptedHeader.Name), o.Profile.AcceptedHeader.Value}
	c.rejected = HeaderLine{http.CanonicalHeaderKey(o.Profile.RejectedHeader.Name), o.Profile.RejectedHeader.Value}
	c.retryHeader = http.CanonicalHeaderKey(o.Profile.RetryHeader)
	if o.ScopeVersion != "" {
		c.scopeVersion = retrysafe.Scope(o.ScopeVersion)
	}
	for _, name := range append([]string{o.Header}, o.Aliases...) {
		if name != "" {
			c.headers = append(c.headers, http.CanonicalHeaderKey(name))
		}
	}
	c.headerOnly = c.source == nil
	return c
}

// ambiguousPolicy returns what becomes of ambiguous responses.
func ambiguousPolicy(o Options, p retrysafe.Policy) AmbiguousPolicy {
	switch {
	case o.Ambiguous != 0:
		return o.Ambiguous
	case resumes(p):
		return AmbiguousUnknown
	}
	return AmbiguousStore
}

// resumes reports whether a retry goes on with an abandoned key.
func resumes(p retrysafe.Policy) bool { return p.OnAbandoned.String() != retrysafe.Refuse().String() }

// setStatus sets Idempotency-Status, if it is wanted.
func (c *config) setStatus(h http.Header, status string) {
	if c.statusHeader {
		h["Idempotency-Status"] = []string{status}
	}
}

// keyMissing names the header to send.
func (c *config) keyMissing() Problem {
	p := problem(KeyMissing)
	if len(c.headers) > 0 {
		p = p.with("header", c.headers[0])
	}
	return p
}

func (c *config) keyMalformed(err error) Problem {
	p := problem(KeyMalformed)
	if e := new(KeyError); errors.As(err, &e) {
		p = p.with("reason", e.Reason)
	}
	return p.with("max_length", c.syntax.Max)
}

// expiry returns " exp=@" and the second at which the result is no longer replayed.
func appendExpiry(b []byte, left time.Duration) []byte {
	return strconv.AppendInt(append(b, "; exp=@"...), time.Now().Add(left).Unix(), 10)
}
