package config

import (
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Config is what the proxy can be told. What a file leaves out is not set; the command fills it in.
type Config struct {
	Listen    Setting[string]
	Admin     Setting[string]
	Metrics   Setting[bool]
	Upstream  Upstream
	Store     Setting[string]
	Scope     Setting[string]
	JWT       JWT
	TLS       TLS
	Secret    Secret
	PublicURL Setting[string]
	H2C       Setting[bool]
	Log       Setting[string]
	Grace     Setting[time.Duration]
	Limits    Limits
	Defaults  Route
	Routes    []Route
}

// Upstream says where requests go.
type Upstream struct {
	URL            Setting[*url.URL]
	PreserveHost   Setting[bool]
	TrustForwarded Setting[bool]
	DialTimeout    Setting[time.Duration]
	HeaderTimeout  Setting[time.Duration]
	IdleTimeout    Setting[time.Duration]
	CA             Setting[string]
}

// JWT says which tokens are accepted, for the scope jwt:URL.
type JWT struct {
	Issuer, Audience Setting[string]
}

// TLS names files.
type TLS struct {
	Cert, Key, ClientCA Setting[string]
}

// Secret says where the secret for fingerprints is found; it never stands in the file itself.
type Secret struct {
	Env, File Setting[string]
}

// Limits of what clients may do.
type Limits struct {
	HeaderBytes   Setting[int64]
	HeaderTimeout Setting[time.Duration]
	BodyTimeout   Setting[time.Duration]
	IdleTimeout   Setting[time.Duration]
	Concurrent    Setting[int]
}

// Load reads a file. The error is a *Faults, or says why the file could not be read.
func Load(path string) (*Config, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return Parse(path, source)
}

// Parse reads a configuration. The error is a *Faults with everything that is wrong.
func Parse(name string, source []byte) (*Config, error) {
	root, fault := parse(source)
	if fault != nil {
		return nil, &Faults{File: name, Source: source, All: []Fault{*fault}}
	}
	c, r := &Config{}, &reader{}
	if root != nil && !isNull(root) {
		r.mapping(root, "the configuration", c.fields())
	}
	r.check(c)
	if len(r.faults) > 0 {
		return nil, &Faults{File: name, Source: source, All: inOrder(r.faults)}
	}
	return c, nil
}

func (c *Config) fields() map[string]field {
	return map[string]field{
		"listen":     scalar(&c.Listen, ParseListen),
		"admin":      scalar(&c.Admin, ParseListen),
		"metrics":    scalar(&c.Metrics, parseBool),
		"upstream":   c.Upstream.read,
		"store":      scalar(&c.Store, parseText),
		"scope":      scalar(&c.Scope, parseText),
		"jwt":        c.JWT.read,
		"tls":        c.TLS.read,
		"secret":     c.Secret.read,
		"public_url": scalar(&c.PublicURL, parsePublicURL),
		"h2c":        scalar(&c.H2C, parseBool),
		"log":        scalar(&c.Log, choice("json", "text")),
		"grace":      scalar(&c.Grace, parseDuration),
		"limits":     c.Limits.read,
		"defaults":   c.readDefaults,
		"routes":     c.readRoutes,
	}
}

// read accepts a URL alone, or a mapping with it.
func (u *Upstream) read(r *reader, n ast.Node) {
	if _, alone := n.(*ast.StringNode); alone {
		scalar(&u.URL, ParseUpstream)(r, n)
		return
	}
	r.mapping(n, "upstream", map[string]field{
		"url":             scalar(&u.URL, ParseUpstream),
		"preserve_host":   scalar(&u.PreserveHost, parseBool),
		"trust_forwarded": scalar(&u.TrustForwarded, parseBool),
		"dial_timeout":    scalar(&u.DialTimeout, parseDuration),
		"header_timeout":  scalar(&u.HeaderTimeout, parseDuration),
		"idle_timeout":    scalar(&u.IdleTimeout, parseDuration),
		"ca":              scalar(&u.CA, parseText),
	})
}

func (j *JWT) read(r *reader, n ast.Node) {
	r.mapping(n, "jwt", map[string]field{
		"issuer":   scalar(&j.Issuer, parseText),
		"audience": scalar(&j.Audience, parseText),
	})
}

func (t *TLS) read(r *reader, n ast.Node) {
	r.mapping(n, "tls", map[string]field{
		"cert":      scalar(&t.Cert, parseText),
		"key":       scalar(&t.Key, parseText),
		"client_ca": scalar(&t.ClientCA, parseText),
	})
}

func (s *Secret) read(r *reader, n ast.Node) {
	if _, inline := n.(ast.ScalarNode); inline {
		// The fault must not show the line: it holds the secret.
		r.faults = append(r.faults, Fault{
			Message: fmt.Sprintf("line %d: a secret does not belong in this file", position(n).Line),
			Instead: "write secret: {env: NAME} or secret: {file: PATH}",
		})
		return
	}
	r.mapping(n, "secret", map[string]field{
		"env":  scalar(&s.Env, parseText),
		"file": scalar(&s.File, parseText),
	})
	if s.Env.Set && s.File.Set {
		r.fault(n, "the secret has two places", "keep one of env and file")
	}
}

func (l *Limits) read(r *reader, n ast.Node) {
	r.mapping(n, "limits", map[string]field{
		"header_bytes":   scalar(&l.HeaderBytes, parseSize),
		"header_timeout": scalar(&l.HeaderTimeout, parseDuration),
		"body_timeout":   scalar(&l.BodyTimeout, parseDuration),
		"idle_timeout":   scalar(&l.IdleTimeout, parseDuration),
		"concurrent":     scalar(&l.Concurrent, parseCount),
	})
}

func (c *Config) readDefaults(r *reader, n ast.Node) {
	r.mapping(n, "defaults", c.Defaults.fields())
}

func (c *Config) readRoutes(r *reader, n ast.Node) {
	for _, entry := range r.entries(n, "routes") {
		pattern, ok := r.text(entry.Key)
		if !ok {
			continue
		}
		route := Route{Pattern: Setting[string]{Value: pattern, Set: true, At: position(entry.Key)}}
		if !isNull(entry.Value) { // a pattern alone has the defaults
			r.mapping(entry.Value, "a route", route.fields())
		}
		c.Routes = append(c.Routes, route)
	}
}
