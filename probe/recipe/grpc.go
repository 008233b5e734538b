package recipe

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/grpcprobe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// calls are what a recipe for gRPC has in the place of requests.
type calls struct {
	plain    call
	key      grpcprobe.Key
	variants map[string]*call
	foreign  bool // what makes something is there, but for HTTP, and has been refused
}

// call is a call as the file has it: what it leaves out is not filled in yet.
type call struct {
	at        ast.Node // nil: it is not in the file
	method    string
	badMethod bool // there is one, and it has been refused
	metadata  []wire.HeaderLine
	request   string
	requestAt ast.Node // nil: it has none of its own
}

// isForGRPC reports whether a recipe says how to make a call, or has a target of gRPC's. What else is in it shows
// when it is read.
func (p *parser) isForGRPC(source []byte) (is bool) {
	var target string
	_ = yamlfile.Read("", source, "a recipe", map[string]yamlfile.Field{
		"grpc":   func(*yamlfile.Reader, ast.Node) { is = true },
		"target": yamlfile.Scalar(&target, p.env.expand),
	}, nil)
	return is || isGRPC(target)
}

// grpcFields returns the fields of a recipe for gRPC.
func (p *parser) grpcFields() map[string]yamlfile.Field {
	r := &p.file.Recipe
	const unused = "the cases of gRPC do not use it: leave it out"
	return map[string]yamlfile.Field{
		"target":      yamlfile.Scalar(&r.Target, expanded(p.env, ParseGRPCTarget)),
		"i_own_this":  yamlfile.Scalar(&p.file.IOwnThis, yamlfile.Bool),
		"profile":     yamlfile.Scalar(&r.Profile, yamlfile.Choice(grpcprobe.Profiles()...)),
		"grpc":        p.readGRPC,
		"identity":    p.grpcIdentity,
		"count":       p.file.count.read(p.env),
		"credentials": yamlfile.Secretly(p.grpcCredentials),
		"variants":    p.readCalls,
		"limits":      p.grpcLimits,
		"request": func(r *yamlfile.Reader, n ast.Node) {
			p.file.grpc.foreign = true
			forHTTP("request", "write grpc: {method: shop.v1.Payments/CreatePayment, request: '…'}; for an "+
				"HTTP API, leave grpc: out and write target: http://…")(r, n)
		},
		"key_header":   forHTTP("key_header", "write grpc: {key_metadata: idempotency-key}, or key_field: request_id"),
		"key_required": forHTTP("key_required", unused),
		"key_body":     forHTTP("key_body", "write grpc: {key_field: request_id}"),
		"key_query":    forHTTP("key_query", "write grpc: {key_metadata: idempotency-key}, or key_field: request_id"),
		"setup":        forHTTP("setup", "create by hand what the call needs, and name it in the request"),
		"routes":       forHTTP("routes", "write a recipe for each method"),
		"hooks":        forHTTP("hooks", unused),
		"retention":    forHTTP("retention", unused),
		"lease":        forHTTP("lease", unused),
		"policy_url":   forHTTP("policy_url", unused),
	}
}

// forHTTP returns a field that is for HTTP, which is an error in a recipe for gRPC.
func forHTTP(name, instead string) yamlfile.Field {
	return func(r *yamlfile.Reader, n ast.Node) {
		r.Fault(n, name+" is for HTTP APIs, but this recipe is for gRPC", instead)
	}
}

// forGRPC returns a field that is for gRPC, which is an error in a recipe for HTTP.
func forGRPC(name, instead string) yamlfile.Field {
	return func(r *yamlfile.Reader, n ast.Node) {
		r.Fault(n, name+" is for gRPC, but this recipe is for an HTTP API", instead)
	}
}

// readGRPC reads the call that creates something.
func (p *parser) readGRPC(r *yamlfile.Reader, n ast.Node) {
	g := p.file.grpc
	known := g.plain.fields(p.env, "grpc")
	known["key_metadata"] = yamlfile.Scalar(&g.key.Metadata, metadataName)
	known["key_field"] = yamlfile.Scalar(&g.key.Field, requestField)
	g.plain.at = n
	r.Mapping(n, "grpc", known)
	if g.key.Metadata != "" && g.key.Field != "" {
		r.Fault(n, "the key can be in one place only", "keep one of key_metadata and key_field")
	}
}

// fields returns the fields of a call. what names the call in errors.
func (c *call) fields(env environment, what string) map[string]yamlfile.Field {
	return map[string]yamlfile.Field{
		"method": func(r *yamlfile.Reader, n ast.Node) {
			yamlfile.Scalar(&c.method, methodName)(r, n)
			c.badMethod = c.method == ""
		},
		"metadata": metadata(&c.metadata, env, what+".metadata"),
		"request": func(r *yamlfile.Reader, n ast.Node) {
			if isText(r, n, "the request must be a text: JSON with generators", "request") {
				c.requestAt = n
				yamlfile.Scalar(&c.request, env.templated)(r, n)
			}
		},
		"path":    forHTTP("path", "write method: shop.v1.Payments/CreatePayment"),
		"headers": forHTTP("headers", "write metadata: {NAME: value}"),
		"body":    forHTTP("body", "write request: '…', the message in JSON"),
	}
}

// readCalls reads the variants of the call.
func (p *parser) readCalls(r *yamlfile.Reader, n ast.Node) {
	known := map[string]yamlfile.Field{}
	for name := range variants() {
		known[name] = forHTTP("variants."+name, "gRPC has the variants slow, failing and broken")
	}
	for _, name := range []string{"slow", "failing", "broken"} {
		known[name] = func(r *yamlfile.Reader, n ast.Node) {
			c := &call{at: n}
			p.file.grpc.variants[name] = c
			r.Mapping(n, "variants."+name, c.fields(p.env, "variants."+name))
		}
	}
	r.Mapping(n, "variants", known)
}

// grpcIdentity reads the identity, which is a pointer into the response's JSON form.
func (p *parser) grpcIdentity(r *yamlfile.Reader, n ast.Node) {
	r.Mapping(n, "identity", map[string]yamlfile.Field{
		"pointer": yamlfile.Scalar(&p.file.Recipe.Identity.Pointer, pointer),
		"header":  forHTTP("header", "write pointer: /paymentId, which leads into the response in its JSON form"),
	})
}

// grpcCredentials reads the metadata of the two callers.
func (p *parser) grpcCredentials(r *yamlfile.Reader, n ast.Node) {
	to := &p.file.Recipe
	r.Mapping(n, "credentials", map[string]yamlfile.Field{
		"a":       metadata(&to.A, p.env, "credentials.a"),
		"b":       metadata(&to.B, p.env, "credentials.b"),
		"revoked": forHTTP("revoked", "the cases of gRPC do not use it: leave it out"),
	})
	p.checkCallers(r, n)
}

// grpcLimits reads the limits that cases of gRPC use.
func (p *parser) grpcLimits(r *yamlfile.Reader, n ast.Node) {
	known := p.limitFields()
	known["wait"] = forHTTP("wait", "the cases of gRPC do not wait: leave it out")
	r.Mapping(n, "limits", known)
}

// finishGRPC looks for what is missing, and completes the calls.
func (p *parser) finishGRPC(r *yamlfile.Reader) {
	g := p.file.grpc
	switch {
	case g.plain.at == nil && !g.foreign:
		r.Missing("grpc is missing: write the call that creates something",
			"write grpc: {method: shop.v1.Payments/CreatePayment, request: '…'}; retrysafe probe init --grpc TARGET does it")
	case g.plain.at != nil && g.plain.method == "" && !g.plain.badMethod:
		r.Fault(g.plain.at, "grpc.method is missing", "write method: shop.v1.Payments/CreatePayment")
	}
	p.checkIdentity(r, "write identity: {pointer: /paymentId}, which leads into the response in its JSON form")
	p.checkCall(r, &g.plain, "grpc")
	for name, c := range g.variants {
		p.checkCall(r, c, "variants."+name)
		c.method, c.metadata = cmp.Or(c.method, g.plain.method), inherited(g.plain.metadata, c.metadata)
		if c.requestAt == nil {
			c.request = g.plain.request
		}
	}
}

// checkCall finds requests that are not JSON, and keys that would be the same in all calls.
func (p *parser) checkCall(r *yamlfile.Reader, c *call, what string) {
	if c.requestAt != nil && c.request != "" && !isJSON(c.request) {
		r.Fault(c.requestAt, what+".request is not JSON", jsonAdvice(c.request))
		return
	}
	key := p.file.grpc.key
	if key == (grpcprobe.Key{}) {
		key = grpcprobe.KeyOf(p.file.Recipe.Profile)
	}
	if key.Metadata != "" && slices.ContainsFunc(c.metadata,
		func(h wire.HeaderLine) bool { return strings.EqualFold(h.Name, key.Metadata) }) {
		r.Fault(c.at, "the probe sends "+key.Metadata+" itself, because that is what it tests", "leave the line out of the metadata")
	}
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(filled(c.request)), &members) == nil && key.Field != "" && members[key.Field] != nil {
		r.Fault(c.requestAt, "the probe sets "+key.Field+" itself, because that is what it tests", "leave it out of the request")
	}
}

// open returns the recipe in the form that grpcprobe takes.
func (g *calls) open(recipe probe.Recipe) grpcprobe.Recipe {
	all := grpcprobe.Recipe{
		Target: recipe.Target.Host, Profile: recipe.Profile, Key: g.key, Call: *g.plain.open(),
		Identity: recipe.Identity.Pointer, Count: recipe.Count,
		A: recipe.A, B: recipe.B, Limits: recipe.Limits,
		Slow: g.variants["slow"].open(), Failing: g.variants["failing"].open(), Broken: g.variants["broken"].open(),
	}
	all.TLS = secure(recipe.Target)
	return all
}

// ServerAt returns the server at a target. Reflection is called with the metadata.
func ServerAt(target *url.URL, metadata []wire.HeaderLine) grpcprobe.Server {
	return grpcprobe.Server{Target: target.Host, TLS: secure(target), Metadata: metadata}
}

// secure says how to speak TLS to a target; nil: in the clear.
func secure(target *url.URL) *tls.Config {
	if target.Scheme == "grpcs" {
		return &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return nil
}

func (c *call) open() *grpcprobe.Call {
	if c == nil {
		return nil
	}
	return &grpcprobe.Call{Method: c.method, Metadata: c.metadata, Request: c.request}
}
