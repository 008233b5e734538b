// Package config reads the proxy's YAML file. It is strict: what it does not know or cannot do is refused, with the
// place, the line and what to write instead.
package config

import (
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/probe/yamlfile"
)

// Config is what the proxy can be told. What a file leaves out is not set; the command fills it in.
type Config struct {
	Listen    Setting[string]
	Admin     Setting[string]
	Metrics   Setting[bool]
	Upstream  Upstream
	Store     Setting[string]
	Scope     Setting[string]
	Auth      Setting[*url.URL]
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

	file   string // where it was read from; empty: nowhere
	source []byte
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
	WriteTimeout  Setting[time.Duration]
	Memory        Setting[int64]
	Concurrent    Setting[int]
	// ConcurrentPerCaller is a quarter of Concurrent if it is not set.
	ConcurrentPerCaller Setting[int]
	KeysPerCaller       Setting[int]
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
	if err := yamlfile.Read(name, source, "the configuration", c.fields(), c.check); err != nil {
		return nil, err
	}
	return c, nil
}

// Locate returns an error about a setting with its place in the file, and the line, if it was set there.
func (c *Config) Locate(at yamlfile.Position, err error) error {
	if at == (yamlfile.Position{}) {
		return err
	}
	return c.Show(yamlfile.Fault{At: at, Message: err.Error()})
}

// Show returns what there is to say about a place in the file, as an error that shows the place.
func (c *Config) Show(f yamlfile.Fault) error {
	return &yamlfile.Faults{File: c.file, Source: c.source, All: []yamlfile.Fault{f}}
}

func (c *Config) fields() map[string]yamlfile.Field {
	return map[string]yamlfile.Field{
		"listen":     scalar(&c.Listen, parseListen),
		"admin":      scalar(&c.Admin, parseListen),
		"metrics":    scalar(&c.Metrics, yamlfile.Bool),
		"upstream":   c.Upstream.read,
		"store":      scalar(&c.Store, yamlfile.Filled),
		"scope":      scalar(&c.Scope, parseScope),
		"auth":       scalar(&c.Auth, parseAuth),
		"jwt":        c.JWT.read,
		"tls":        c.TLS.read,
		"secret":     c.Secret.read,
		"public_url": scalar(&c.PublicURL, parsePublicURL),
		"h2c":        scalar(&c.H2C, yamlfile.Bool),
		"log":        scalar(&c.Log, yamlfile.Choice("json", "text")),
		"grace":      scalar(&c.Grace, yamlfile.Duration),
		"limits":     c.Limits.read,
		"defaults":   c.readDefaults,
		"routes":     yamlfile.InsteadOfAliases("what routes have in common goes to defaults:", c.readRoutes),
	}
}

// read accepts a URL alone, or a mapping with it.
func (u *Upstream) read(r *yamlfile.Reader, n ast.Node) {
	if _, alone := n.(*ast.StringNode); alone {
		scalar(&u.URL, parseUpstream)(r, n)
		return
	}
	r.Mapping(n, "upstream", map[string]yamlfile.Field{
		"url":             scalar(&u.URL, parseUpstream),
		"preserve_host":   scalar(&u.PreserveHost, yamlfile.Bool),
		"trust_forwarded": scalar(&u.TrustForwarded, yamlfile.Bool),
		"dial_timeout":    scalar(&u.DialTimeout, yamlfile.Duration),
		"header_timeout":  scalar(&u.HeaderTimeout, yamlfile.Duration),
		"idle_timeout":    scalar(&u.IdleTimeout, yamlfile.Duration),
		"ca":              scalar(&u.CA, yamlfile.Filled),
	})
}

func (j *JWT) read(r *yamlfile.Reader, n ast.Node) {
	r.Mapping(n, "jwt", map[string]yamlfile.Field{
		"issuer":   scalar(&j.Issuer, yamlfile.Filled),
		"audience": scalar(&j.Audience, yamlfile.Filled),
	})
}

func (t *TLS) read(r *yamlfile.Reader, n ast.Node) {
	r.Mapping(n, "tls", map[string]yamlfile.Field{
		"cert":      scalar(&t.Cert, yamlfile.Filled),
		"key":       scalar(&t.Key, yamlfile.Filled),
		"client_ca": scalar(&t.ClientCA, yamlfile.Filled),
	})
}

func (s *Secret) read(r *yamlfile.Reader, n ast.Node) {
	yamlfile.Secretly(s.readPlace)(r, n) // some write the secret itself
	if s.Env.Set && s.File.Set {
		r.Fault(n, "the secret has two places", "keep one of env and file")
	}
}

func (s *Secret) readPlace(r *yamlfile.Reader, n ast.Node) {
	if _, inline := n.(ast.ScalarNode); inline {
		r.Fault(n, "a secret does not belong in this file", "write secret: {env: NAME} or secret: {file: PATH}")
		return
	}
	r.Mapping(n, "secret", map[string]yamlfile.Field{
		"env":  scalar(&s.Env, yamlfile.Filled),
		"file": scalar(&s.File, yamlfile.Filled),
	})
}

func (l *Limits) read(r *yamlfile.Reader, n ast.Node) {
	r.Mapping(n, "limits", map[string]yamlfile.Field{
		"header_bytes":   scalar(&l.HeaderBytes, parseSize),
		"header_timeout": scalar(&l.HeaderTimeout, yamlfile.Duration),
		"body_timeout":   scalar(&l.BodyTimeout, yamlfile.Duration),
		"idle_timeout":   scalar(&l.IdleTimeout, yamlfile.Duration),
		"write_timeout":  scalar(&l.WriteTimeout, yamlfile.Duration),
		"memory":         scalar(&l.Memory, parseSize),
		"concurrent":     scalar(&l.Concurrent, yamlfile.Between(1, 1_000_000)),

		"concurrent_per_caller": scalar(&l.ConcurrentPerCaller, yamlfile.Between(1, 1_000_000)),
		"keys_per_caller":       scalar(&l.KeysPerCaller, yamlfile.Between(1, 1_000_000_000)),
	})
}

func (c *Config) readDefaults(r *yamlfile.Reader, n ast.Node) {
	r.Mapping(n, "defaults", c.Defaults.fields())
}

func (c *Config) readRoutes(r *yamlfile.Reader, n ast.Node) {
	for _, entry := range r.Entries(n, "routes") {
		pattern, ok := r.Text(entry.Key)
		if !ok {
			continue
		}
		route := Route{Pattern: placed(pattern, entry.Key)}
		switch entry.Value.(type) {
		case nil, *ast.NullNode: // a pattern alone has the defaults
		default:
			r.Mapping(entry.Value, "a route", route.fields())
		}
		c.Routes = append(c.Routes, route)
	}
}
