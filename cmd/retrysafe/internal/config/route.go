package config

import (
	"fmt"
	"reflect"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/probe/yamlfile"
)

// Route is how the requests that match a pattern are treated. Where it says nothing, the defaults of the file hold.
type Route struct {
	Pattern Setting[string] // in the file, the name of the route's mapping

	Guarded     Setting[bool]          `yaml:"guarded"`
	Profile     Setting[string]        `yaml:"profile"`
	Required    Setting[bool]          `yaml:"required"`
	Methods     Setting[[]string]      `yaml:"methods" form:"method"`
	Key         Setting[Key]           `yaml:"key"`
	Fingerprint Setting[Fingerprint]   `yaml:"fingerprint"`
	ScopeRoute  Setting[bool]          `yaml:"scope_route"`
	Retention   Retention              `yaml:"retention"`
	Lease       Setting[time.Duration] `yaml:"lease"`
	Timeout     Setting[time.Duration] `yaml:"timeout"`
	// InFlight waits by default. A client that lost its connection retries within milliseconds, while its first
	// attempt still works, and few client libraries retry a 409. The wait is shorter than their usual timeouts.
	InFlight   Setting[InFlight] `yaml:"in_flight" form:"in flight" default:"wait:5s"`
	Abandoned  Setting[string]   `yaml:"abandoned" form:"refuse|rerun"`
	StoreError Setting[string]   `yaml:"store_error" form:"closed|open"`
	// HoldUnsaved is how long an answer is held back while the store fails to save it.
	HoldUnsaved Setting[time.Duration] `yaml:"hold_unsaved" default:"5s"`
	Ambiguous   Setting[string]        `yaml:"ambiguous" form:"store|release|unknown"`
	// Complete says who completes the keys: the upstream does so in transactions of its own.
	Complete Setting[string] `yaml:"complete" form:"proxy|upstream"`
	Attempts Setting[int]    `yaml:"attempts" form:"attempts"`
	// TrustUnavailable takes the upstream's 503 and 408 as the profile does.
	TrustUnavailable Setting[bool]   `yaml:"trust_unavailable"`
	MaxRequest       Setting[int64]  `yaml:"max_request"`
	MaxResponse      Setting[int64]  `yaml:"max_response"`
	UpstreamKey      Setting[string] `yaml:"upstream_key" form:"field name"`
	AttemptHeader    Setting[string] `yaml:"attempt_header" form:"field name"`
	Stream           Setting[bool]   `yaml:"stream"`
}

// Retention of a route's records.
type Retention struct {
	Replay Setting[time.Duration] `yaml:"replay"`
	Key    Setting[time.Duration] `yaml:"key"`
	Audit  Setting[time.Duration] `yaml:"audit"`
}

// Key says where a route's keys come from: one of its parts, or the profile's header.
type Key struct {
	Natural  *Natural        `yaml:"natural"`
	BodyHash *BodyHash       `yaml:"body_hash"`
	Header   Setting[string] `yaml:"header" form:"field name"`
}

// Natural makes keys from the parts of a request that identify the operation.
type Natural struct {
	Path      Setting[[]string] `yaml:"path" form:"string"`
	Fields    Setting[[]string] `yaml:"fields" form:"pointer"`
	Reference Setting[string]   `yaml:"reference" form:"field name"`
}

// BodyHash makes keys from the body.
type BodyHash struct {
	Fields Setting[[]string] `yaml:"fields" form:"pointer"`
	Intent Setting[string]   `yaml:"intent" form:"field name"`
}

// Fingerprint says what of a request must be the same on a retry.
type Fingerprint struct {
	Kind    string            // raw, json, form, multipart or none; empty: fields, which are
	Include Setting[[]string] `yaml:"include" form:"pointer"`
	Exclude Setting[[]string] `yaml:"exclude" form:"pointer"`
}

// InFlight says what a request gets while another attempt works.
type InFlight struct {
	Kind string // reject, wait, status
	Wait time.Duration
}

// Over returns the route with what it leaves out taken from defaults.
func (t Route) Over(defaults Route) Route {
	inherit(reflect.ValueOf(&t).Elem(), reflect.ValueOf(&defaults).Elem())
	return t
}

// overridden returns the routes with what they leave out taken from the defaults.
func (c *Config) overridden() []Route {
	all := make([]Route, len(c.Routes))
	for i, t := range c.Routes {
		all[i] = t.Over(c.Defaults)
	}
	return all
}

// routes are read from a mapping of patterns.
type routes []Route

func (all *routes) read(r *yamlfile.Reader, n ast.Node) {
	yamlfile.InsteadOfAliases("what routes have in common goes to defaults:", all.readEntries)(r, n)
}

func (all *routes) readEntries(r *yamlfile.Reader, n ast.Node) {
	for _, entry := range r.Entries(n, "routes") {
		pattern, ok := r.Text(entry.Key)
		if !ok {
			continue
		}
		route := Route{Pattern: Setting[string]{Value: pattern, Set: true, At: yamlfile.Place(entry.Key)}}
		switch entry.Value.(type) {
		case nil, *ast.NullNode: // a pattern alone has the defaults
		default:
			readMapping(r, entry.Value, "a route", reflect.ValueOf(&route))
		}
		*all = append(*all, route)
	}
}

func (k *Retention) readScalar(r *yamlfile.Reader, n ast.ScalarNode) {
	r.Fault(n, "retention must be a mapping: answers, keys and records are kept for times of their own",
		fmt.Sprintf("write retention: {replay: %s}", n.GetToken().Value))
}

// readScalar accepts header: the profile's.
func (k *Key) readScalar(r *yamlfile.Reader, n ast.ScalarNode) {
	yamlfile.Scalar(new(string), yamlfile.Choice("header"))(r, n)
}

func (k *Key) checkMapping(r *yamlfile.Reader, n ast.Node) {
	if len(r.Entries(n, "key")) > 1 {
		r.Fault(n, "a key comes from one place", "keep one of header, natural and body_hash")
	}
}

// String is how a file has it if it is not a mapping.
func (k Key) String() string {
	if k.Natural == nil && k.BodyHash == nil && k.Header.Value == "" {
		return "header"
	}
	return ""
}

func (k *Natural) checkMapping(r *yamlfile.Reader, n ast.Node) {
	if !k.Path.Set && !k.Fields.Set {
		r.Fault(n, "key.natural needs path or fields", "write path: [id] for {id} in the pattern, or fields: [/order/id]")
	}
}

func (f *Fingerprint) readScalar(r *yamlfile.Reader, n ast.ScalarNode) {
	yamlfile.Scalar(&f.Kind, yamlfile.Choice("raw", "json", "form", "multipart", "none"))(r, n)
}

func (f *Fingerprint) checkMapping(r *yamlfile.Reader, n ast.Node) {
	if f.Include.Set == f.Exclude.Set {
		r.Fault(n, "a fingerprint of fields needs either include or exclude",
			"write one of include: [/amount] and exclude: [/sent_at]")
	}
}

// isFields reports whether fields are included or excluded.
func (f Fingerprint) isFields() bool { return f.Include.Set || f.Exclude.Set }

// String is how a file has it if it is not a mapping.
func (f Fingerprint) String() string { return f.Kind }

// String is how a file has it.
func (f InFlight) String() string {
	if f.Kind == "wait" {
		return "wait:" + f.Wait.String()
	}
	return f.Kind
}

// noUpstreamKey says that the upstream gets no key, where one would be needed: doing the operation twice does no
// harm.
const noUpstreamKey = "none"
