package recipe

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/profiles"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// File is a recipe as it is written. Nothing has been opened yet: see Open.
type File struct {
	// Recipe lacks what Open adds: the count and the hooks. Its Target is nil if the file does not say where the API
	// is.
	Recipe probe.Recipe
	// IOwnThis says that the user may test the target, although it is not on this machine.
	IOwnThis bool

	routes []Route // empty: the recipe has one request

	grpc  *calls // nil: the recipe is for HTTP
	dir   string // of the file: what relative paths are relative to
	count countSettings
	hooks hookSettings
}

// Load reads a file, with the variables of the environment. The error is a *yamlfile.Faults, or says why the file
// could not be read.
func Load(path string) (*File, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the recipe: %w", err)
	}
	return Parse(path, source, os.LookupEnv)
}

// Parse reads a recipe. The error is a *yamlfile.Faults with everything that is wrong.
func Parse(name string, source []byte, lookup func(name string) (string, bool)) (*File, error) {
	f := &File{dir: filepath.Dir(name)}
	p := &parser{file: f, env: environment{lookup, namesSavedIn(source)}, variants: map[string]*request{}}
	fields, finish := p.fields(), p.finish
	if p.isForGRPC(source) {
		f.grpc = &calls{variants: map[string]*call{}}
		f.count.absolute = true
		fields, finish = p.grpcFields(), p.finishGRPC
	}
	if err := yamlfile.Read(name, source, "a recipe", fields, finish); err != nil {
		return nil, err
	}
	return f, nil
}

// parser holds what has been read until everything has.
type parser struct {
	file     *File
	env      environment
	request  request
	variants map[string]*request
	setup    []probe.Step
	routes   []*routeParser
	routesAt ast.Node          // nil: there are none
	keyAt    []ast.Node        // where the place of the key is said
	declared *profiles.Profile // that of a file; nil: the recipe names one, or none
}

// fields returns the fields of a recipe for HTTP.
func (p *parser) fields() map[string]yamlfile.Field {
	r := &p.file.Recipe
	return map[string]yamlfile.Field{
		"target":       yamlfile.Scalar(&r.Target, expanded(p.env, ParseTarget)),
		"i_own_this":   yamlfile.Scalar(&p.file.IOwnThis, yamlfile.Bool),
		"profile":      p.profile,
		"key_header":   p.keyPlace(&r.KeyHeader, fieldName),
		"key_body":     p.keyPlace(&r.KeyBody, pointer),
		"key_query":    p.keyPlace(&r.KeyQuery, parameterName),
		"key_required": yamlfile.Scalar(&r.KeyRequired, yamlfile.Bool),
		"setup":        readSetup(&p.setup, p.env, "setup"),
		"routes":       p.readRoutes,
		"request":      p.request.read(p.env, "request"),
		"grpc":         forGRPC("grpc", "leave it out"), // only an empty one comes here: see isForGRPC
		"identity":     p.identity,
		"count":        p.file.count.read(p.env),
		"credentials":  yamlfile.Secretly(p.credentials),
		"variants":     p.readVariants,
		"hooks":        p.file.hooks.read,
		"retention":    yamlfile.Scalar(&r.Retention, yamlfile.Duration),
		"lease":        yamlfile.Scalar(&r.Lease, yamlfile.Duration),
		"body_timeout": yamlfile.Scalar(&r.BodyTimeout, yamlfile.Duration),
		"other_host":   yamlfile.Scalar(&r.OtherHost, hostName),
		"policy_url":   yamlfile.Scalar(&r.PolicyURL, webURL),
		"limits":       p.limits,
	}
}

// identity reads where an answer identifies what was created.
func (p *parser) identity(r *yamlfile.Reader, n ast.Node) {
	id := &p.file.Recipe.Identity
	r.Mapping(n, "identity", map[string]yamlfile.Field{
		"pointer": yamlfile.Scalar(&id.Pointer, pointer),
		"header":  yamlfile.Scalar(&id.Header, fieldName),
	})
	if len(mappingOf(n)) > 1 {
		r.Fault(n, "the identity can be in one place only", "keep one of pointer and header")
	}
}

// credentials reads the header lines of the callers. Two callers with the same lines are an error: every case about
// callers would then fail.
func (p *parser) credentials(r *yamlfile.Reader, n ast.Node) {
	to := &p.file.Recipe
	r.Mapping(n, "credentials", map[string]yamlfile.Field{
		"a":       headers(&to.A, p.env, "credentials.a"),
		"b":       headers(&to.B, p.env, "credentials.b"),
		"revoked": headers(&to.Revoked, p.env, "credentials.revoked"),
		"a_again": headers(&to.AAgain, p.env, "credentials.a_again"),
	})
	p.checkCallers(r, n)
}

// checkCallers finds callers that are one and the same. Where a variable is missing, that is all there is to say.
func (p *parser) checkCallers(r *yamlfile.Reader, n ast.Node) {
	to := &p.file.Recipe
	for name, other := range map[string][]wire.HeaderLine{"b": to.B, "revoked": to.Revoked, "a_again": to.AAgain} {
		unread := slices.ContainsFunc(other, func(h wire.HeaderLine) bool { return h.Value == "" })
		if len(other) > 0 && !unread && reflect.DeepEqual(to.A, other) {
			r.Fault(n, fmt.Sprintf("credentials a and %s are the same", name), "write the credential of "+
				"another caller, or leave it out")
		}
	}
}

// limits reads the limits of a run.
func (p *parser) limits(r *yamlfile.Reader, n ast.Node) {
	r.Mapping(n, "limits", p.limitFields())
}

// limitFields returns the limits that recipes of both protocols have.
func (p *parser) limitFields() map[string]yamlfile.Field {
	l := &p.file.Recipe.Limits
	return map[string]yamlfile.Field{
		"requests": yamlfile.Scalar(&l.Requests, yamlfile.Between(1, 1_000_000)),
		"rate":     yamlfile.Scalar(&l.Rate, rate),
		"timeout":  yamlfile.Scalar(&l.Timeout, yamlfile.Duration),
		"wait":     yamlfile.Scalar(&l.Wait, yamlfile.Duration),
		"burst":    yamlfile.Scalar(&l.Burst, yamlfile.Between(2, 1000)),
	}
}

// finish looks for what is missing, and completes the requests.
func (p *parser) finish(r *yamlfile.Reader) {
	if p.declared != nil {
		declare(&p.file.Recipe, *p.declared)
	}
	if len(p.keyAt) > 1 {
		r.Fault(p.keyAt[1], "the key can be in one place only", "keep one of key_header, key_body and key_query")
	}
	switch {
	case p.routesAt != nil:
		p.finishRoutes(r)
		return
	case p.request.at == nil:
		r.Missing("request is missing: write the request that creates something",
			"write request: {path: /payments, body: '…'}, or let retrysafe probe init make it from a curl line")
	}
	p.finishRequest(r)
}

// finishRequest completes the request and its variants.
func (p *parser) finishRequest(r *yamlfile.Reader) {
	if p.request.at != nil && p.request.path == "" && !p.request.badPath {
		r.Fault(p.request.at, "request.path is missing", "write path: /payments")
	}
	p.checkIdentity(r, "write identity: {pointer: /id}, or identity: {header: Location}")
	p.request.checkBody(r, "request")
	p.request.checkKey(r, p.file.Recipe)
	p.file.Recipe.Request = p.request.template()
	p.file.Recipe.Request.Setup = p.setup
	checkPlaceholders(r, p.request.at, p.file.Recipe.Request)
	p.finishVariants(r)
}

// keyPlace reads a field that says where the key is.
func (p *parser) keyPlace(to *string, parse func(string) (string, error)) yamlfile.Field {
	return func(r *yamlfile.Reader, n ast.Node) {
		p.keyAt = append(p.keyAt, n)
		yamlfile.Scalar(to, parse)(r, n)
	}
}

// checkIdentity notes a fault if the recipe has no identity.
func (p *parser) checkIdentity(r *yamlfile.Reader, instead string) {
	if p.file.Recipe.Identity == (probe.Identity{}) && r.Found() == 0 {
		r.Missing("identity is missing: write what in an answer identifies the created thing", instead)
	}
}

// ParseTarget checks where an API is said to be.
func ParseTarget(s string) (*url.URL, error) {
	const instead = "write http://127.0.0.1:8080 or https://api.example.test/v1"
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, yamlfile.Wrong("the target is not the URL of an API", instead)
	case u.User != nil:
		return nil, yamlfile.Wrong("the target contains a user or a password",
			"write a line under credentials.a: Authorization: Basic ${NAME}")
	case u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(s, " \r\n\t"):
		return nil, yamlfile.Wrong("the target may have only a scheme, a host and a path", instead)
	}
	return u, nil
}
