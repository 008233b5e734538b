package profiles

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// Conventions are the settings that a profile and a route of the proxy have in common. A route overrides its profile,
// and a profile its base. The comments of the fields are documentation for users.
type Conventions struct {
	// Required: if true, a request without a key gets 400. Default: as the profile, false for most.
	Required settings.Setting[bool] `yaml:"required" sets:"Required"`
	// Methods are the guarded methods; others pass through. A route whose own method is not guarded is an error, unless it
	// has `guarded: false`. A route without a method that requires a key and guards only some methods causes a warning.
	// Default: the profile's.
	Methods settings.Setting[[]string] `yaml:"methods" form:"method" sets:"Methods"`
	// RejectUnsupported: if true, a key on a method that is not guarded is refused with 501, unless the method is safe.
	// Otherwise the key is ignored, and the answer says so. Default: as the profile.
	RejectUnsupported settings.Setting[bool] `yaml:"reject_unsupported" sets:"RejectUnsupported"`
	// AllowEarlyData: if true, requests that came as TLS early data are served, which an attacker may replay, instead of
	// refused with 425. Use it only if all proxies share one store.
	AllowEarlyData settings.Setting[bool] `yaml:"allow_early_data" sets:"AllowEarlyData"`
	// Fingerprint is what must be the same in a retry: `raw`, `json` (order and white space may differ), `form`,
	// `multipart`, `none`, or fields of a JSON body. Default: as the profile, `raw` for most.
	Fingerprint settings.Setting[Fingerprint] `yaml:"fingerprint" form:"raw|json|form|multipart|none"`
	// Echo are members of a replayed answer that are taken from the request that gets it: `[/id]` for JSON-RPC, whose
	// answers repeat the `id` of their request. What is stored stays as it is. They must be left out of the fingerprint:
	// `fingerprint: {exclude: [/id]}`. Default: none.
	Echo settings.Setting[[]string] `yaml:"echo" form:"pointer" sets:"EchoFields"`
	// ScopeRoute: if true, keys are separate on each route. Default: as the profile.
	ScopeRoute settings.Setting[bool] `yaml:"scope_route" sets:"ScopeRoute"`
	// ScopePath: if true, and `scope_route` too, keys are separate for each path, also if one route serves both. Default:
	// as the profile.
	ScopePath settings.Setting[bool] `yaml:"scope_path" sets:"ScopePath"`
	// Statuses are the answers that are treated in another way than the profile does.
	Statuses settings.Setting[Statuses] `yaml:"statuses"`
	// DropBody: if true, bodies are never stored: a retry gets the status and the headers, and is told that the body is
	// missing. For secrets that are shown once.
	DropBody settings.Setting[bool] `yaml:"drop_body" sets:"DropBody"`
	// Redact are values in the bodies of answers that are not stored: `[/card/number, /token]`, as JSON pointers. The first
	// request gets the answer as it is; retries get `"[redacted]"` in place of a text, and `null` in place of anything else.
	// If a body is not JSON, or it is not certain for another reason that the values are found, it is not stored, as with
	// `drop_body`. See [privacy](privacy.md). Default: none.
	Redact settings.Setting[[]string] `yaml:"redact" form:"pointer" sets:"Redact"`
	// KeepHeaders are headers of answers that are stored and replayed although they are left out by default, such as
	// `Set-Cookie`.
	KeepHeaders settings.Setting[[]string] `yaml:"keep_headers" form:"field name" sets:"KeepHeaders"`
	// DropHeaders are headers of answers that are not stored, although they are by default.
	DropHeaders settings.Setting[[]string] `yaml:"drop_headers" form:"field name" sets:"DropHeaders"`
	// Marker is a header that is `true` on replays. Default: the profile's.
	Marker settings.Setting[string] `yaml:"marker" form:"field name" sets:"Marker"`
	// MarkerField is a JSON pointer to a member that is `true` in the body of replays, such as `/replayed`. It is not
	// stored, and a body that is no JSON object does not get it. Default: the profile's.
	MarkerField settings.Setting[string] `yaml:"marker_field" form:"pointer" sets:"MarkerField"`
}

// ApplyConventions changes a profile as the settings say that set more than one of its options each. The others, whose
// tags name the option, are applied with the struct around them.
func (c Conventions) ApplyConventions(p *httpsafe.Profile) {
	if c.Fingerprint.Set {
		p.Fingerprint = c.Fingerprint.Value.method()
	}
	if c.Statuses.Set {
		p.Class = c.Statuses.Value.class(httpsafe.Options{Profile: *p}.WithDefaults().Profile.Class)
	}
}

// Statuses says what becomes of answers. An item is a status, such as `402`, or a hundred of them, such as `4xx`, in
// which those that are listed themselves are not meant. 502 and 504 are ambiguous whatever is written here, and so are
// 408 and 503 unless the answer has `Retry-After` or `trust_unavailable` is set.
type Statuses struct {
	// Store are answers that are stored and replayed: `[409]`.
	Store settings.Setting[[]string] `yaml:"store" form:"status"`
	// Release are answers that say that nothing happened, so that a retry runs the operation: `[402, 404]`.
	Release settings.Setting[[]string] `yaml:"release" form:"status"`
	// Ambiguous are answers after which `ambiguous` decides.
	Ambiguous settings.Setting[[]string] `yaml:"ambiguous" form:"status"`
}

// lists returns the lists, by the class that they give to a status.
func (s Statuses) lists() map[retrysafe.Class][]string {
	return map[retrysafe.Class][]string{
		retrysafe.ClassStore: s.Store.Value, retrysafe.ClassRelease: s.Release.Value,
		retrysafe.ClassAmbiguous: s.Ambiguous.Value,
	}
}

// CheckMapping implements settings.Checked.
func (s *Statuses) CheckMapping(r *yamlfile.Reader, n ast.Node) {
	seen := map[string]bool{}
	for _, list := range s.lists() {
		for _, status := range list {
			if seen[status] {
				r.Fault(n, status+" is in this twice", "keep it in one of store, release and ambiguous")
			}
			seen[status] = true
		}
	}
	for _, status := range s.Release.Value {
		if status < "4" {
			r.Fault(n, "a retry after an answer "+status+" would run the operation again, which has succeeded",
				"leave it out of release")
		}
	}
}

// class returns the class that the lists give to a status, or else the one that otherwise gives it.
func (s Statuses) class(otherwise httpsafe.ClassFunc) httpsafe.ClassFunc {
	known := map[string]retrysafe.Class{}
	for class, list := range s.lists() {
		for _, status := range list {
			known[status] = class
		}
	}
	return func(status int) retrysafe.Class {
		if class, ok := known[strconv.Itoa(status)]; ok {
			return class
		}
		if class, ok := known[fmt.Sprintf("%dxx", status/100)]; ok {
			return class
		}
		return otherwise(status)
	}
}

// Fingerprint says what of a request must be the same on a retry.
type Fingerprint struct {
	Kind string // raw, json, form, multipart or none; empty: fields, which are
	// Include are JSON pointers to what is compared: `[/amount]`.
	Include settings.Setting[[]string] `yaml:"include" form:"pointer"`
	// Exclude are JSON pointers to what is not compared: `[/sent_at]`.
	Exclude settings.Setting[[]string] `yaml:"exclude" form:"pointer"`
	// Numbers is when two numbers in a JSON body are equal: `written`, if they are written alike; `value`, if they have
	// the same value, as `1.0` and `1`; `double`, if they are the same double, as RFC 8785 has it, which makes large
	// numbers equal that differ in the last digits. Without `include` and `exclude` the whole body is compared. Default:
	// `written`.
	Numbers settings.Setting[string] `yaml:"numbers" form:"written|value|double"`
	// WithoutHeaders: if true, no headers are compared, not even `Content-Type`, except for those of
	// `fingerprint_headers`.
	WithoutHeaders settings.Setting[bool] `yaml:"without_headers"`
}

// ReadScalar reads a kind in place of the mapping.
func (f *Fingerprint) ReadScalar(r *yamlfile.Reader, n ast.ScalarNode, form string) {
	yamlfile.Scalar(&f.Kind, yamlfile.Choice(strings.Split(form, "|")...))(r, n)
}

// CheckMapping implements settings.Checked.
func (f *Fingerprint) CheckMapping(r *yamlfile.Reader, n ast.Node) {
	if !f.isFields() || f.Include.Set && f.Exclude.Set {
		r.Fault(n, "a fingerprint of fields needs either include or exclude, or numbers",
			"write one of include: [/amount] and exclude: [/sent_at], or numbers: value for the whole body")
	} else if err := f.fields().Validate(); err != nil {
		r.Fault(n, err.Error(), "")
	}
}

// isFields reports whether JSON is compared by fields, or as a whole with a rule for numbers.
func (f Fingerprint) isFields() bool { return f.Include.Set || f.Exclude.Set || f.Numbers.Set }

// String is how a file has it if it is not a mapping.
func (f Fingerprint) String() string { return f.Kind }

// numbers are the names of the ways in which numbers are compared.
var numbers = map[string]fingerprint.Numbers{
	"written": fingerprint.AsWritten, "value": fingerprint.ByValue, "double": fingerprint.AsDoubles,
}

func (f Fingerprint) fields() fingerprint.Fields {
	return fingerprint.Fields{Include: f.Include.Value, Exclude: f.Exclude.Value, Numbers: numbers[f.Numbers.Value]}
}

// method returns the library's name for it.
func (f Fingerprint) method() httpsafe.FingerprintMethod {
	if kind, ok := kinds()[f.Kind]; ok {
		return kind
	}
	method := httpsafe.FingerprintFields(f.fields())
	if f.WithoutHeaders.Value {
		return method.WithoutHeaders()
	}
	return method
}

// kinds are the ways to compare bodies that have a name.
func kinds() map[string]httpsafe.FingerprintMethod {
	return map[string]httpsafe.FingerprintMethod{
		"raw": httpsafe.FingerprintRaw(), "json": httpsafe.FingerprintJSON(), "form": httpsafe.FingerprintForm(),
		"multipart": httpsafe.FingerprintMultipart(), "none": httpsafe.FingerprintNone(),
	}
}
