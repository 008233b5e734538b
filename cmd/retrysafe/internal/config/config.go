// Package config reads the proxy's YAML file. It is strict: it refuses what it does not know and what makes no sense,
// and names for each fault the place, the line and what to write instead, all of them at once.
//
//	config.go    what can be set, as structs whose tags say how each setting is written, and what holds without it
//	route.go     the same for a route, and for the parts of it that have two ways to be written
//	settings.go  reads, completes, combines and prints any struct of settings, by its tags
//	values.go    how the text of a single value is read
//	patterns.go  routes that would match nothing, or that guard nothing
//	check.go     settings that make no sense together
//	build.go     the options of the proxy that a configuration stands for
package config

import (
	"fmt"
	"net/url"
	"os"
	"reflect"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/probe/yamlfile"
)

// Config is what the proxy can be told. FillIn gives a default to the settings that neither the file nor a flag has.
type Config struct {
	Listen    Setting[string]        `yaml:"listen" form:"address" default:"127.0.0.1:8080"`
	Admin     Setting[string]        `yaml:"admin" form:"address"` // of health checks and metrics
	Metrics   Setting[bool]          `yaml:"metrics"`
	Upstream  Upstream               `yaml:"upstream"`
	Store     Setting[string]        `yaml:"store" default:"retrysafe.db"`
	Scope     Setting[string]        `yaml:"scope" form:"scope" default:"credential"`
	Auth      Setting[*url.URL]      `yaml:"auth" form:"auth"`
	JWT       JWT                    `yaml:"jwt"`
	TLS       TLS                    `yaml:"tls"`
	Secret    Secret                 `yaml:"secret"`
	PublicURL Setting[string]        `yaml:"public_url" form:"public URL"`
	H2C       Setting[bool]          `yaml:"h2c"`
	Log       Setting[string]        `yaml:"log" form:"json|text" default:"text"`
	Grace     Setting[time.Duration] `yaml:"grace" default:"30s"`
	Limits    Limits                 `yaml:"limits"`
	Defaults  Route                  `yaml:"defaults"` // what holds for each route that does not say otherwise
	Routes    routes                 `yaml:"routes"`

	file   string // where it was read from; empty: nowhere
	source []byte
}

// Upstream says where requests go. A URL alone is short for a mapping with it.
type Upstream struct {
	URL            Setting[*url.URL]      `yaml:"url" form:"upstream"`
	PreserveHost   Setting[bool]          `yaml:"preserve_host"`
	TrustForwarded Setting[bool]          `yaml:"trust_forwarded"`
	DialTimeout    Setting[time.Duration] `yaml:"dial_timeout" default:"5s"`
	HeaderTimeout  Setting[time.Duration] `yaml:"header_timeout"`
	IdleTimeout    Setting[time.Duration] `yaml:"idle_timeout" default:"4s"`
	CA             Setting[string]        `yaml:"ca"`
}

// JWT says which tokens are accepted, for the scope jwt:URL.
type JWT struct {
	Issuer   Setting[string] `yaml:"issuer"`
	Audience Setting[string] `yaml:"audience"`
}

// TLS names files.
type TLS struct {
	Cert     Setting[string] `yaml:"cert"`
	Key      Setting[string] `yaml:"key"`
	ClientCA Setting[string] `yaml:"client_ca"`
}

// Secret says where the secret for fingerprints is found. The secret itself is never in the file.
type Secret struct {
	Env  Setting[string] `yaml:"env"`
	File Setting[string] `yaml:"file"`
}

// Limits of what clients may do.
type Limits struct {
	HeaderBytes   Setting[int64]         `yaml:"header_bytes" default:"64KiB"`
	HeaderTimeout Setting[time.Duration] `yaml:"header_timeout" default:"10s"`
	BodyTimeout   Setting[time.Duration] `yaml:"body_timeout" default:"30s"`
	IdleTimeout   Setting[time.Duration] `yaml:"idle_timeout" default:"2m"`
	WriteTimeout  Setting[time.Duration] `yaml:"write_timeout" default:"30s"`
	Memory        Setting[int64]         `yaml:"memory" default:"64MiB"`
	Concurrent    Setting[int]           `yaml:"concurrent" default:"1000"`
	// ConcurrentPerCaller is a quarter of Concurrent if it is not set.
	ConcurrentPerCaller Setting[int] `yaml:"concurrent_per_caller"`
	KeysPerCaller       Setting[int] `yaml:"keys_per_caller" form:"large number" default:"360000"`
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
	if err := yamlfile.Read(name, source, "the configuration", readers(reflect.ValueOf(c).Elem()), c.check); err != nil {
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
	if err := find(reflect.ValueOf(c).Elem(), name).parse(value); err != nil {
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
	if err := fillIn(reflect.ValueOf(c).Elem()); err != nil {
		return err
	}
	c.Limits.ConcurrentPerCaller.Default(max(c.Limits.Concurrent.Value/4, 1))
	return nil
}

// Effective returns what is in force, as a file that says the same. Of a secret it says where it is found.
// FillIn comes before.
func (c *Config) Effective() string {
	e := *c
	for _, always := range []*Setting[bool]{&e.Metrics, &e.H2C, &e.Upstream.PreserveHost, &e.Upstream.TrustForwarded} {
		always.Set = true
	}
	e.Defaults = c.Defaults.inForce()
	e.Routes = c.overridden()
	for i, t := range e.Routes {
		e.Routes[i] = t.inForce()
	}
	return show(reflect.ValueOf(&e).Elem(), "")
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

// readScalar reads a URL that stands in place of the mapping.
func (u *Upstream) readScalar(r *yamlfile.Reader, n ast.ScalarNode) {
	find(reflect.ValueOf(u).Elem(), "url").read(r, n)
}

// read hides its lines in faults, because some users write the secret itself.
func (s *Secret) read(r *yamlfile.Reader, n ast.Node) {
	yamlfile.Secretly(func(r *yamlfile.Reader, n ast.Node) { readMapping(r, n, "secret", reflect.ValueOf(s)) })(r, n)
	if s.Env.Set && s.File.Set {
		r.Fault(n, "the secret has two places", "keep one of env and file")
	}
}

// readScalar refuses the secret itself.
func (s *Secret) readScalar(r *yamlfile.Reader, n ast.ScalarNode) {
	r.Fault(n, "a secret does not belong in this file", "write secret: {env: NAME} or secret: {file: PATH}")
}
