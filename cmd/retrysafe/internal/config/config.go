// Package config reads the proxy's YAML file. It is strict: it refuses what it does not know and what makes no sense,
// and names for each fault the place, the line and what to write instead, all of them at once.
//
//	config.go    what can be set, as structs whose tags say how each setting is written, and what holds without it
//	route.go     the same for a route, and for the parts of it that have two ways to be written
//	values.go    how the text of a single value is read
//	docs.go      describes the settings for people and editors, from the comments of their fields
//	patterns.go  routes that would match nothing, or that guard nothing
//	links.go     the links of the dashboard; oidc.go: its OpenID provider
//	mode.go      routes that are only observed
//	verify.go    how the senders of routes sign their requests
//	check.go     settings that make no sense together
//	build.go     the options of the proxy that a configuration stands for
//	encryption.go  the keys for what the store keeps
//	extproc.go   what cannot be had if Envoy sends the requests
//	reload.go    the files of a configuration, and what a running proxy cannot change
//
// Package settings reads, completes, combines, prints and describes the structs by their tags and comments.
package config

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// Setting is a value that may be set, and where it was. Package settings says what its tags are. The tag sets names an
// option of the library.
type Setting[T any] = settings.Setting[T]

// Config is what the proxy can be told. FillIn gives a default to the settings that neither the file nor a flag has.
//
// The comments of the fields are documentation for users, in Markdown: see docs.go.
type Config struct {
	// Listen is the address to listen on; `:8080` is every interface.
	Listen Setting[string] `yaml:"listen" form:"address" default:"127.0.0.1:8080" restart:"change"`
	// Admin is the address that serves `/healthz` and `/readyz`, and what [tail](watching-traffic.md) and
	// [stats](stats.md) read. It must not be public. Default: off.
	Admin Setting[string] `yaml:"admin" form:"address" restart:"change"`
	// Metrics: serve `/metrics` for Prometheus at `admin`, too. See [metrics](metrics.md).
	Metrics Setting[bool] `yaml:"metrics" restart:"change"`
	// Dashboard: where the [dashboard](dashboard.md) is served, as an address or a mapping. Default: off.
	Dashboard Dashboard `yaml:"dashboard" form:"address"`
	// MetricsScan: how often to read all records of a store on Redis, NATS or DynamoDB, for the metrics that count records
	// by state: at least `15m`. Each scan reads the whole store, which DynamoDB charges for: see
	// [metrics](metrics.md#stores-without-an-index). Default: never.
	MetricsScan Setting[time.Duration] `yaml:"metrics_scan" restart:"change"`
	// ExtProc: if true, `listen` speaks the protocol of Envoy's ext_proc filter, and Envoy sends the requests to the API. If
	// there is an `upstream` too, the proxy sends those with a key. See [Envoy](envoy.md).
	ExtProc Setting[bool] `yaml:"ext_proc" restart:"change"`
	// Upstream is the API, as a URL or a mapping. It is required, unless `ext_proc` is true.
	Upstream Upstream `yaml:"upstream" form:"upstream" sets:"Upstream"`
	// Store is where keys are stored: a path (a SQLite file, created if missing), `memory:`, or the URL of a server:
	// postgres, mysql, redis, nats or dynamodb. It is one of
	//   - a path: a SQLite file, created if missing. `sqlite:keys.db` is a file in the working directory,
	//     `sqlite:///var/lib/keys.db` has an absolute path;
	//   - `postgres://USER@HOST/DATABASE` ([its parameters](postgres.md#the-url));
	//   - `mysql://USER@HOST/DATABASE`, `mariadb://…` ([its parameters](store-mysql.md));
	//   - `redis://HOST:PORT`, `rediss://…` with TLS ([its parameters](store-redis.md));
	//   - `nats://HOST:PORT/BUCKET` ([its parameters](store-nats.md));
	//   - `dynamodb://TABLE?region=REGION` ([its parameters](store-dynamodb.md));
	//   - `'memory:'` (in quotes in the file).
	Store Setting[string] `yaml:"store" default:"retrysafe.db" restart:"change"`
	// Scope is how callers are identified: `credential`, `header:NAME`, `jwt:JWKS-URL`, `cookie:NAME`, `mtls`,
	// `aws-access-key` or `none`. `aws-access-key` is the access key ID of AWS signatures, which the API verifies.
	// `cookie:NAME` is the SHA-256 of a cookie, such as that of a session. `header:NAME` stores the
	// header's value unchanged, so it refuses headers with credentials (`Authorization`, `X-API-Key`, `Cookie`,
	// `Proxy-Authorization`).
	Scope Setting[string] `yaml:"scope" form:"scope" default:"credential"`
	// Auth is a URL that decides whether the caller has access, before a key is claimed or an answer replayed: see
	// [a revoked login](getting-started-proxy.md#a-revoked-login). Default: none.
	Auth Setting[*url.URL] `yaml:"auth" form:"auth" sets:"AuthURL"`
	// Callers are callers with several credentials, such as an API key and the one that replaces it: `acme:
	// ['sha256:…', 'sha256:…']`. A retry with the one gets the answer that the other was given. An item is a caller as
	// `retrysafe keys list` shows it. With `scope: credential` that is `sha256:` and the hash of the header, which
	// `printf %s 'Bearer KEY' | sha256sum` prints. Add a credential before it is used. A name may be that of the old
	// credential, whose keys are then found as before: `'sha256:OLD': ['sha256:NEW']`. Default: none.
	Callers callers `yaml:"callers"`
	// JWT is what tokens must have, with `scope: jwt:JWKS-URL`.
	JWT JWT `yaml:"jwt"`
	// TLS: the files for TLS with HTTP/2. Default: off.
	TLS TLS `yaml:"tls"`
	// Secret: where the secret for fingerprints is found, at least 16 bytes. With it, a reader of the store cannot
	// guess requests. Default: none.
	Secret Secret `yaml:"secret"`
	// ReconcileSecret: where the secrets that sign the questions of `reconcile` are found: one or more, separated by
	// spaces, as Standard Webhooks write them (`whsec_…`). Default: none.
	ReconcileSecret Secret `yaml:"reconcile_secret"`
	// UpstreamKeySecret: where the secret for the keys of `upstream_key` is found, at least 16 bytes. With it, the
	// upstream cannot guess the client's key from the one that it gets, even if that is `order-17`. If it changes,
	// upstreams get other keys: see [the secret of the upstream's keys](#the-secret-of-the-upstreams-keys). Default: none.
	UpstreamKeySecret Secret `yaml:"upstream_key_secret" restart:"change"`
	// Encryption: the keys with which answers and steps are encrypted before the store keeps them. See
	// [encryption](encryption.md). Default: none.
	Encryption Encryption `yaml:"encryption"`
	// PublicURL is the proxy's URL for clients; error types link to its policy page. Default: relative links.
	PublicURL Setting[string] `yaml:"public_url" form:"public URL" sets:"PublicURL"`
	// H2C: accept HTTP/2 without TLS.
	H2C Setting[bool] `yaml:"h2c" restart:"change"`
	// Log is the format of the log, which goes to standard error: `text` or `json`.
	Log Setting[string] `yaml:"log" form:"json|text" default:"text" restart:"change"`
	// Traces: where spans of requests with a key are sent. See [traces](traces.md). Default: nowhere.
	Traces Traces `yaml:"traces"`
	// Watch: look at this file and the files that it names each second, and [reload](reload.md) them when they have
	// changed.
	Watch Setting[bool] `yaml:"watch" restart:"change"`
	// Grace is how long to wait for running operations at shutdown.
	Grace Setting[time.Duration] `yaml:"grace" default:"30s"`
	// Limits: what clients can make the proxy hold at most. See [limits](limits.md).
	Limits Limits `yaml:"limits" sets:"Limits"`
	// Defaults are the fields of a route, for all routes.
	Defaults Route `yaml:"defaults"`
	// Routes are [patterns](getting-started-proxy.md#route-patterns) such as `POST /payments/{id}`, each with fields that
	// override the defaults. Default: none.
	Routes routes `yaml:"routes"`

	file   string // where it was read from; empty: nowhere
	source []byte
}

// Upstream says where requests go. A URL alone is short for a mapping with it.
type Upstream struct {
	// URL is where requests go: `http://host:port`, `https://host` or `h2c://host:port`, and perhaps a path.
	URL Setting[*url.URL] `yaml:"url" form:"upstream" sets:"URL"`
	// PreserveHost: the upstream gets the `Host` that the client sent.
	PreserveHost Setting[bool] `yaml:"preserve_host" sets:"PreserveHost"`
	// TrustForwarded: the `Forwarded` and `X-Forwarded-*` of a request are kept. Use it only if no client can reach this
	// proxy except through another proxy.
	TrustForwarded Setting[bool] `yaml:"trust_forwarded" sets:"TrustForwarded"`
	// DialTimeout is how long a connection may take to be made.
	DialTimeout Setting[time.Duration] `yaml:"dial_timeout" default:"5s" sets:"DialTimeout"`
	// HeaderTimeout is how long the upstream may take from the end of a request to the header of its answer. Default:
	// none, but `timeout` bounds requests with a key.
	HeaderTimeout Setting[time.Duration] `yaml:"header_timeout" sets:"HeaderTimeout"`
	// IdleTimeout is how long an unused connection is kept. It must be below the upstream's own timeout: if a request is
	// sent while the upstream closes the connection, its outcome is unknown.
	IdleTimeout Setting[time.Duration] `yaml:"idle_timeout" default:"4s" sets:"IdleTimeout"`
	// CA is a file with the certificates of the authority that signed the upstream's. Default: the system's.
	CA Setting[string] `yaml:"ca"`
}

// Dashboard says where operators find the dashboard. An address alone is short for a mapping with it.
type Dashboard struct {
	// Listen is the address that serves the dashboard, such as `127.0.0.1:8082`. Default: off.
	Listen Setting[string] `yaml:"listen" form:"address" restart:"change"`
	// Users is a file of the users who may log in with a token. It or `oidc` is required unless `listen` is an address of
	// this machine only.
	Users Setting[string] `yaml:"users" restart:"change"`
	// OIDC: the OpenID provider at which users log in. See [the dashboard](dashboard.md#log-in-at-an-openid-provider).
	// Default: none.
	OIDC OIDC `yaml:"oidc" restart:"change"`
	// URL is where operators find the dashboard, such as `https://ops.example.com`, whichever process serves it. Then the
	// `instance` of error bodies, the log and traces name the page of their key. Clients see the URL. Default: none.
	URL Setting[*url.URL] `yaml:"url" form:"dashboard" restart:"change"`
	// SecondPerson are the decisions that another user must confirm: some of `resolve`, `purge` and `reopen`. See [two
	// persons](dashboard.md#decisions-of-two-persons). Default: none.
	SecondPerson Setting[[]string] `yaml:"second_person" form:"resolve|purge|reopen" restart:"change"`
	// Proposals is the file that keeps these decisions until they are confirmed, for at most 24 hours. Each proxy needs its
	// own. It is required with `second_person`.
	Proposals Setting[string] `yaml:"proposals" restart:"change"`
	// Links are links from the page of a key to other sites: `{Stripe:
	// 'https://dashboard.stripe.com/search?query={tag:order}'}`. `{tag:NAME}` is a tag of the key, `{digest}` its digest,
	// `{upstream_key}` the key that the upstream got; values are escaped, and cannot stand in the host. A link whose value a
	// key lacks is not shown. Default: none.
	Links Setting[Links] `yaml:"links" restart:"change"`
}

// OIDC says at which OpenID provider users log in.
type OIDC struct {
	// Issuer is the URL of the provider, as its tokens have it: `https://login.example.com`.
	Issuer Setting[string] `yaml:"issuer" form:"issuer"`
	// ClientID is the client ID that the dashboard has at the provider.
	ClientID Setting[string] `yaml:"client_id"`
	// ClientSecret: where the client secret is found. Without one the client is a public one.
	ClientSecret Secret `yaml:"client_secret"`
	// RedirectURL is where the provider sends browsers back to, such as `https://ops.example.com/oidc/callback`. Default:
	// `/oidc/callback` below the dashboard's `url`.
	RedirectURL Setting[string] `yaml:"redirect_url" form:"redirect URL"`
	// Roles are the roles `look`, `resolve` and `purge` by the values of the claim: `{staff: look, payments: resolve}`. A
	// user with several has the greatest.
	Roles Setting[Roles] `yaml:"roles"`
	// Claim is the claim of the token that has the values, a text or a list. Default: `groups`.
	Claim Setting[string] `yaml:"claim"`
	// Scopes are requested beside `openid`. Some providers give groups only with `groups` among them. Default: `[profile,
	// email]`.
	Scopes Setting[[]string] `yaml:"scopes" form:"string"`
}

// keyPages is what the URLs of pages about keys begin with; "" if there is none.
func (d Dashboard) keyPages() string {
	if !d.URL.Set {
		return ""
	}
	return d.URL.Value.JoinPath("keys").String() + "/"
}

// PageOf returns the URL of the page about the key with a digest; "" if there is none.
func (d Dashboard) PageOf(digest string) string {
	if pages := d.keyPages(); pages != "" {
		return pages + digest
	}
	return ""
}

// JWT says which tokens are accepted, for the scope jwt:URL.
type JWT struct {
	// Issuer is the required issuer of tokens.
	Issuer Setting[string] `yaml:"issuer"`
	// Audience is the required audience of tokens.
	Audience Setting[string] `yaml:"audience"`
	// Claim is the claim that names the caller, such as `tenant_id` or `client_id`: all tokens of an issuer that have the
	// same text in it are one caller. Default: `sub`.
	Claim Setting[string] `yaml:"claim"`
}

// TLS names files.
type TLS struct {
	// Cert is the file of the certificate chain.
	Cert Setting[string] `yaml:"cert" restart:"presence"`
	// Key is the file of the certificate's private key.
	Key Setting[string] `yaml:"key"`
	// ClientCA is the file of the CA of client certificates; every client then needs one.
	ClientCA Setting[string] `yaml:"client_ca"`
}

// Secret says where a secret is found. The secret itself is never in the file.
type Secret struct {
	// Env is the name of an environment variable with the secret.
	Env Setting[string] `yaml:"env"`
	// File is a file with the secret. Line breaks at its end do not belong to it.
	File Setting[string] `yaml:"file"`
}

// Encryption says where the keyset is found, as `retrysafe keyset new` writes it, and what becomes of plaintext.
type Encryption struct {
	// Env is the name of an environment variable with the keyset.
	Env Setting[string] `yaml:"env"`
	// File is a file with the keyset.
	File Setting[string] `yaml:"file"`
	// Command is a command with its arguments that prints the keyset, such as `[sops, -d, keyset.enc.json]`. It runs at
	// start and at each reload, for 30 seconds at most.
	Command Setting[[]string] `yaml:"command" form:"string"`
	// Plaintext: what becomes of what is not encrypted. With `refuse` its retries get 503, `accept` reads it, and `write`
	// reads it and encrypts nothing yet. Default: `refuse`.
	Plaintext Setting[string] `yaml:"plaintext" form:"refuse|accept|write" restart:"change"`
}

// Traces says where spans are sent, and of how many requests.
type Traces struct {
	// OTLP is the URL of a collector of OpenTelemetry that speaks OTLP over HTTP, such as `http://localhost:4318`;
	// `/v1/traces` is added to it.
	OTLP Setting[*url.URL] `yaml:"otlp" form:"collector" restart:"change"`
	// Sample is the share of requests that get a span, from 0 to 1, of those that come without a trace. A request that
	// comes with one is sampled as its trace is. Default: 1.
	Sample Setting[float64] `yaml:"sample" form:"share" restart:"change"`
}

// Limits of what clients may do.
type Limits struct {
	// HeaderBytes is the largest header of a request.
	HeaderBytes Setting[int64] `yaml:"header_bytes" default:"64KiB" restart:"change"`
	// HeaderTimeout is how long the header of a request may take to arrive.
	HeaderTimeout Setting[time.Duration] `yaml:"header_timeout" default:"10s" restart:"change"`
	// BodyTimeout is how long the body of a request with a key may take to arrive, and each pause in any other body.
	BodyTimeout Setting[time.Duration] `yaml:"body_timeout" default:"30s"`
	// IdleTimeout is how long an unused connection of a client is kept.
	IdleTimeout Setting[time.Duration] `yaml:"idle_timeout" default:"2m" restart:"change"`
	// WriteTimeout is how long a client may take to read 64 KiB of an answer.
	WriteTimeout Setting[time.Duration] `yaml:"write_timeout" default:"30s" sets:"WriteTimeout"`
	// Memory is for the bodies and answers of all requests with keys together.
	Memory Setting[int64] `yaml:"memory" default:"64MiB" sets:"Memory"`
	// Concurrent is how many requests that may have an effect are served at once.
	Concurrent Setting[int] `yaml:"concurrent" default:"1000" sets:"Concurrent"`
	// ConcurrentPerCaller is how many of them may be requests of one caller with keys. Default: a quarter of `concurrent`.
	ConcurrentPerCaller Setting[int] `yaml:"concurrent_per_caller" sets:"ConcurrentPerCaller"`
	// KeysPerCaller is how many new keys a caller may use per hour.
	KeysPerCaller Setting[int] `yaml:"keys_per_caller" form:"large number" default:"360000" sets:"KeysPerCaller"`
}

// Upstreams returns the upstream of the file, and those that routes have of their own, each once.
func (c *Config) Upstreams() []Setting[*url.URL] {
	if c.ExtProc.Value && !c.Upstream.URL.Set {
		return nil
	}
	return c.urls(func(t Route) Setting[*url.URL] { return t.Upstream }, c.Upstream.URL)
}

// Reconcilers returns the services that are asked what became of an attempt, each once.
func (c *Config) Reconcilers() []Setting[*url.URL] {
	return c.urls(func(t Route) Setting[*url.URL] { return t.Reconcile })
}

// urls returns the first URLs, and those that of returns for routes, each once.
func (c *Config) urls(of func(Route) Setting[*url.URL], first ...Setting[*url.URL]) []Setting[*url.URL] {
	all := first
	for _, t := range append(c.overridden(), c.Defaults) {
		own := of(t)
		isKnown := func(s Setting[*url.URL]) bool { return s.Value != nil && *s.Value == *own.Value }
		if own.Set && !slices.ContainsFunc(all, isKnown) {
			all = append(all, own)
		}
	}
	return all
}

// Load reads a file. The error is a *yamlfile.Faults, or says why the file could not be read.
func Load(path string) (*Config, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return Parse(path, source)
}

// Parse reads a configuration. The error is a *yamlfile.Faults with everything that is wrong.
func Parse(name string, source []byte) (*Config, error) {
	c := &Config{file: name, source: source}
	if err := yamlfile.Read(name, source, "the configuration", proxyFile.Readers(c), c.check); err != nil {
		return nil, err
	}
	return c, nil
}

// Override sets what has the given name in the file, such as tls.cert, to the value of a flag. An empty value is
// none. The error names the flag, and says what to write instead.
func (c *Config) Override(name, flag, value string) error {
	if value == "" {
		return nil
	}
	if err := proxyFile.Set(c, name, value); err != nil {
		return yamlfile.ForFlag(flag, err)
	}
	return nil
}

// FillIn gives each setting that is not set its default. The error says what makes no sense together, with what flags
// have changed.
func (c *Config) FillIn() error {
	// Flags are in no file, so their faults are shown without a place.
	if err := yamlfile.Read("flags", nil, "", nil, c.check); err != nil {
		return err
	}
	if err := proxyFile.FillIn(c); err != nil {
		return err
	}
	if c.Traces.OTLP.Set {
		c.Traces.Sample.Default(1)
	}
	if c.Encryption.isSet() {
		c.Encryption.Plaintext.Default("refuse")
	}
	c.Limits.ConcurrentPerCaller.Default(max(c.Limits.Concurrent.Value/4, 1))
	return nil
}

// Effective returns what is in force, as a file that says the same. Of a secret it says where it is found.
// FillIn comes before.
func (c *Config) Effective() string {
	e := *c
	e.Defaults = c.Defaults.inForce()
	e.Routes = c.overridden()
	for i, t := range e.Routes {
		e.Routes[i] = t.inForce()
	}
	return settings.Show(&e)
}

// Locate returns an error about a setting with its place in the file, and the line, if it was set there.
func (c *Config) Locate(at yamlfile.Position, err error) error {
	if at == (yamlfile.Position{}) {
		return err
	}
	return c.Show(yamlfile.Fault{At: at, Message: err.Error()})
}

// Show returns a fault as an error that shows its line.
func (c *Config) Show(f yamlfile.Fault) error {
	return &yamlfile.Faults{File: c.file, Source: c.source, All: []yamlfile.Fault{f}}
}

// callers are those that have several names, by the name that counts.
type callers []sameCaller

type sameCaller struct {
	name  string
	known []string
	at    yamlfile.Position // of the names
}

// ReadYAML implements settings.YAMLReader.
func (all *callers) ReadYAML(r *yamlfile.Reader, n ast.Node) {
	yamlfile.InsteadOfAliases("write the caller's names out:", all.readEntries)(r, n)
}

func (all *callers) readEntries(r *yamlfile.Reader, n ast.Node) {
	seen := map[string]bool{}
	for _, entry := range r.Entries(n, "callers") {
		var same sameCaller
		var ok bool
		if same.name, ok = r.Text(entry.Key); !ok {
			continue
		}
		same.at = yamlfile.Place(entry.Value)
		yamlfile.List(&same.known, yamlfile.Filled)(r, entry.Value)
		for _, name := range same.known {
			if seen[name] {
				r.Fault(entry.Value, name+" is two callers", "keep it in one list")
			}
			seen[name] = true
		}
		*all = append(*all, same)
	}
}

// ShowYAML implements settings.YAMLShower.
func (all callers) ShowYAML(indent string) (text string) {
	for _, same := range all {
		text += "\n" + indent + "  " + strconv.Quote(same.name) + ":" + settings.ShowValue(same.known, "")
	}
	return text
}

// JSONSchema implements settings.Describer.
func (callers) JSONSchema() settings.Schema {
	names := settings.Schema{"type": "array", "minItems": 1, "items": settings.AnyText()}
	return settings.Schema{"type": "object", "additionalProperties": names}
}

// Names returns the name that counts for each of the others.
func (all callers) Names() map[string]string {
	names := map[string]string{}
	for _, same := range all {
		for _, name := range same.known {
			names[name] = same.name
		}
	}
	return names
}

// ReadScalar reads a URL that stands in place of the mapping.
func (u *Upstream) ReadScalar(r *yamlfile.Reader, n ast.ScalarNode, _ string) {
	proxyFile.Readers(u)["url"](r, n)
}

// ReadScalar reads an address that stands in place of the mapping.
func (d *Dashboard) ReadScalar(r *yamlfile.Reader, n ast.ScalarNode, _ string) {
	proxyFile.Readers(d)["listen"](r, n)
}

// ReadYAML hides its lines in faults, because some users write the secret itself.
func (s *Secret) ReadYAML(r *yamlfile.Reader, n ast.Node) {
	yamlfile.Secretly(func(r *yamlfile.Reader, n ast.Node) { proxyFile.ReadMapping(r, n, "secret", s) })(r, n)
	if s.Env.Set && s.File.Set {
		r.Fault(n, "the secret has two places", "keep one of env and file")
	}
}

// ReadScalar refuses the secret itself.
func (s *Secret) ReadScalar(r *yamlfile.Reader, n ast.ScalarNode, _ string) {
	r.Fault(n, "a secret does not belong in this file", "write {env: NAME} or {file: PATH}")
}
