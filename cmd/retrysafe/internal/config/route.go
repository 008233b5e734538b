package config

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/probe/yamlfile"
)

// Route is how the requests that match a pattern are treated.
type Route struct {
	Pattern Setting[string]

	Guarded  Setting[bool]
	Required Setting[bool]
	Profile  Setting[string]
	Methods  Setting[[]string]
	Key      Setting[Key]
	// Fingerprint and what goes with it.
	Fingerprint Setting[Fingerprint]
	ScopeRoute  Setting[bool]

	Retention Retention
	Lease     Setting[time.Duration]
	Timeout   Setting[time.Duration]

	// Wait is how long to wait for an attempt in flight; 0: not at all.
	InFlight   Setting[InFlight]
	Abandoned  Setting[string]
	StoreError Setting[string]
	Ambiguous  Setting[string]

	MaxRequest  Setting[int64]
	MaxResponse Setting[int64]

	UpstreamKey   Setting[string]
	AttemptHeader Setting[string]
	Stream        Setting[bool]
	// TrustUnavailable takes the upstream's 503 and 408 as the profile does.
	TrustUnavailable Setting[bool]
}

// Retention of a route's records.
type Retention struct {
	Replay, Key, Audit Setting[time.Duration]
}

// Key says where a route's keys come from: one of its parts.
type Key struct {
	Header   string // a header's name; empty: the profile's
	Natural  *Natural
	BodyHash *BodyHash
}

// Natural makes keys of what names the operation in the request itself.
type Natural struct {
	Path, Fields Setting[[]string]
	Reference    Setting[string]
}

// BodyHash makes keys of the body.
type BodyHash struct {
	Fields Setting[[]string]
	Intent Setting[string]
}

// Fingerprint says what of a request must be the same on a retry.
type Fingerprint struct {
	Kind             string // raw, json, form, multipart, none, fields
	Include, Exclude Setting[[]string]
}

// InFlight says what a request gets while another attempt works.
type InFlight struct {
	Kind string // reject, wait, status
	Wait time.Duration
}

func (t *Route) fields() map[string]yamlfile.Field {
	return map[string]yamlfile.Field{
		"guarded":        scalar(&t.Guarded, yamlfile.Bool),
		"required":       scalar(&t.Required, yamlfile.Bool),
		"profile":        scalar(&t.Profile, yamlfile.Filled),
		"methods":        list(&t.Methods, parseMethod),
		"key":            t.readKey,
		"fingerprint":    t.readFingerprint,
		"scope_route":    scalar(&t.ScopeRoute, yamlfile.Bool),
		"retention":      t.Retention.read,
		"lease":          scalar(&t.Lease, yamlfile.Duration),
		"timeout":        scalar(&t.Timeout, yamlfile.Duration),
		"in_flight":      scalar(&t.InFlight, parseInFlight),
		"abandoned":      scalar(&t.Abandoned, yamlfile.Choice("refuse", "rerun")),
		"store_error":    scalar(&t.StoreError, yamlfile.Choice("closed", "open")),
		"ambiguous":      scalar(&t.Ambiguous, yamlfile.Choice("store", "release", "unknown")),
		"max_request":    scalar(&t.MaxRequest, parseSize),
		"max_response":   scalar(&t.MaxResponse, parseSize),
		"upstream_key":   scalar(&t.UpstreamKey, parseFieldName),
		"attempt_header": scalar(&t.AttemptHeader, parseFieldName),
		"stream":         scalar(&t.Stream, yamlfile.Bool),

		"trust_unavailable": scalar(&t.TrustUnavailable, yamlfile.Bool),
	}
}

// Over returns the route with what it leaves out taken from defaults.
func (t Route) Over(d Route) Route {
	t.Guarded = t.Guarded.Or(d.Guarded)
	t.Required = t.Required.Or(d.Required)
	t.Profile = t.Profile.Or(d.Profile)
	t.Methods = t.Methods.Or(d.Methods)
	t.Key = t.Key.Or(d.Key)
	t.Fingerprint = t.Fingerprint.Or(d.Fingerprint)
	t.ScopeRoute = t.ScopeRoute.Or(d.ScopeRoute)
	t.Retention = t.Retention.over(d.Retention)
	t.Lease = t.Lease.Or(d.Lease)
	t.Timeout = t.Timeout.Or(d.Timeout)
	t.InFlight = t.InFlight.Or(d.InFlight)
	t.Abandoned = t.Abandoned.Or(d.Abandoned)
	t.StoreError = t.StoreError.Or(d.StoreError)
	t.Ambiguous = t.Ambiguous.Or(d.Ambiguous)
	t.MaxRequest = t.MaxRequest.Or(d.MaxRequest)
	t.MaxResponse = t.MaxResponse.Or(d.MaxResponse)
	t.UpstreamKey = t.UpstreamKey.Or(d.UpstreamKey)
	t.AttemptHeader = t.AttemptHeader.Or(d.AttemptHeader)
	t.Stream = t.Stream.Or(d.Stream)
	t.TrustUnavailable = t.TrustUnavailable.Or(d.TrustUnavailable)
	return t
}

func (k Retention) over(d Retention) Retention {
	return Retention{Replay: k.Replay.Or(d.Replay), Key: k.Key.Or(d.Key), Audit: k.Audit.Or(d.Audit)}
}

func (k *Retention) read(r *yamlfile.Reader, n ast.Node) {
	if scalar, alone := n.(ast.ScalarNode); alone {
		r.Fault(n, "retention must be a mapping: answers, keys and records are kept for times of their own",
			fmt.Sprintf("write retention: {replay: %s}", scalar.GetToken().Value))
		return
	}
	r.Mapping(n, "retention", map[string]yamlfile.Field{
		"replay": scalar(&k.Replay, yamlfile.Duration),
		"key":    scalar(&k.Key, yamlfile.Duration),
		"audit":  scalar(&k.Audit, yamlfile.Duration),
	})
}

// readKey accepts "header", or a mapping with one entry.
func (t *Route) readKey(r *yamlfile.Reader, n ast.Node) {
	var k Key
	if _, alone := n.(ast.ScalarNode); alone {
		scalar(new(Setting[string]), yamlfile.Choice("header"))(r, n)
		t.Key = placed(k, n)
		return
	}
	var header Setting[string]
	r.Mapping(n, "key", map[string]yamlfile.Field{
		"header":    scalar(&header, parseFieldName),
		"natural":   func(r *yamlfile.Reader, n ast.Node) { k.Natural = readNatural(r, n) },
		"body_hash": func(r *yamlfile.Reader, n ast.Node) { k.BodyHash = readBodyHash(r, n) },
	})
	k.Header = header.Value
	if len(r.Entries(n, "key")) > 1 {
		r.Fault(n, "a key comes from one place", "keep one of header, natural and body_hash")
	}
	t.Key = placed(k, n)
}

func readNatural(r *yamlfile.Reader, n ast.Node) *Natural {
	k := &Natural{}
	r.Mapping(n, "natural", map[string]yamlfile.Field{
		"path":      list(&k.Path, yamlfile.Filled),
		"fields":    list(&k.Fields, parsePointer),
		"reference": scalar(&k.Reference, parseFieldName),
	})
	if !k.Path.Set && !k.Fields.Set {
		r.Fault(n, "a natural key is made of something", "write path: [id] for {id} in the pattern, or fields: [/order/id]")
	}
	return k
}

func readBodyHash(r *yamlfile.Reader, n ast.Node) *BodyHash {
	k := &BodyHash{}
	r.Mapping(n, "body_hash", map[string]yamlfile.Field{
		"fields": list(&k.Fields, parsePointer),
		"intent": scalar(&k.Intent, parseFieldName),
	})
	return k
}

// readFingerprint accepts a word, or fields to include or exclude.
func (t *Route) readFingerprint(r *yamlfile.Reader, n ast.Node) {
	var kind Setting[string]
	if _, alone := n.(ast.ScalarNode); alone {
		scalar(&kind, yamlfile.Choice("raw", "json", "form", "multipart", "none"))(r, n)
		t.Fingerprint = Setting[Fingerprint]{Value: Fingerprint{Kind: kind.Value}, Set: kind.Set, At: kind.At}
		return
	}
	f := Fingerprint{Kind: "fields"}
	r.Mapping(n, "fingerprint", map[string]yamlfile.Field{
		"include": list(&f.Include, parsePointer),
		"exclude": list(&f.Exclude, parsePointer),
	})
	if f.Include.Set == f.Exclude.Set {
		r.Fault(n, "a fingerprint of fields says which", "write one of include: [/amount] and exclude: [/sent_at]")
	}
	t.Fingerprint = placed(f, n)
}

func parseInFlight(s string) (InFlight, error) {
	kind, wait, hasWait := strings.Cut(s, ":")
	switch {
	case !hasWait && (kind == "reject" || kind == "status"):
		return InFlight{Kind: kind}, nil
	case hasWait && kind == "wait":
		d, err := yamlfile.Duration(wait)
		return InFlight{Kind: kind, Wait: d}, err
	}
	_, err := yamlfile.Choice("reject", "wait:10s", "status")(s)
	return InFlight{}, err
}

// noUpstreamKey says that the upstream gets no key, where one would be needed: doing the operation twice does no harm.
const noUpstreamKey = "none"

var commonMethods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func parseMethod(s string) (string, error) {
	near := yamlfile.Nearest(s, commonMethods)
	switch {
	case s == "" || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		return "", yamlfile.Wrong("\""+s+"\" is no method", "methods are written in capitals: POST")
	case isSafe(s):
		return "", yamlfile.Wrong(s+" needs no key: it has no effect to repeat", "leave it out")
	case near != "" && near != s:
		return "", yamlfile.Wrong("\""+s+"\" is no method", "did you mean "+near+"?")
	}
	return s, nil
}
