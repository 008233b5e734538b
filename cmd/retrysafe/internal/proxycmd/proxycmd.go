// Package proxycmd is the command retrysafe proxy.
//
//	proxycmd.go  flags, and how they override the file
//	plan.go      a checked configuration, and how it is run
//	check.go     --check: tests the store, the upstream and what else is configured
//	serve.go     listens, and shuts down
//	reload.go    puts a changed file into force while requests run
//	health.go    /healthz and /readyz
//	scope.go     how callers are identified
//	keys.go      serves retrysafe keys while the proxy has a SQLite file open
//	observe.go   what watches the proxy: logging.go and metrics.go
//	traces.go    spans of requests
//	dashboard.go serves the dashboard
//	report.go    what observe mode counts, for /report and /metrics
//	memory.go    the memory limit, and memory that is returned after a burst
package proxycmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/config"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// Cmd is the command line of retrysafe proxy. Its flags override the file, --metrics=false a file's true as well. An
// empty flag is not set. The tag setting names what a flag overrides, such as tls.cert; that setting's documentation is
// the help of the flag.
type Cmd struct {
	Upstream string `setting:"upstream.url" env:"RETRYSAFE_UPSTREAM" placeholder:"URL"`
	ExtProc  *bool  `setting:"ext_proc" name:"ext-proc" env:"RETRYSAFE_EXT_PROC"`
	Listen   string `setting:"listen" env:"RETRYSAFE_LISTEN" placeholder:"ADDR"`
	Store    string `setting:"store" env:"RETRYSAFE_STORE" placeholder:"STORE"`
	Scope    string `setting:"scope" env:"RETRYSAFE_SCOPE" placeholder:"SCOPE"`
	Config   string `env:"RETRYSAFE_CONFIG" placeholder:"FILE" help:"YAML file with all these settings, and with routes."`
	Check    bool   `help:"Check flags and file, test the store and the upstream, print the configuration in force, and exit."`
	Schema   bool   `help:"Print a JSON Schema of the file, with which editors complete and check it, and exit."`
	Observe  bool   `env:"RETRYSAFE_OBSERVE" help:"Enforce nothing, on no route: let every request through, and count what would have been done. See retrysafe report."`
	Offline  bool   `help:"With --check: do not test the store and the upstream."`

	Watch       *bool  `setting:"watch" env:"RETRYSAFE_WATCH" group:"Operation"`
	Admin       string `setting:"admin" env:"RETRYSAFE_ADMIN" placeholder:"ADDR" group:"Operation"`
	Metrics     *bool  `setting:"metrics" env:"RETRYSAFE_METRICS" group:"Operation"`
	Dashboard   string `setting:"dashboard.listen" env:"RETRYSAFE_DASHBOARD" placeholder:"ADDR" group:"Operation"`
	Users       string `setting:"dashboard.users" name:"dashboard-users" env:"RETRYSAFE_DASHBOARD_USERS" placeholder:"FILE" group:"Operation"`
	Log         string `setting:"log" env:"RETRYSAFE_LOG" placeholder:"FORMAT" group:"Operation"`
	Grace       string `setting:"grace" env:"RETRYSAFE_GRACE" placeholder:"30s" group:"Operation"`
	PublicURL   string `setting:"public_url" name:"public-url" env:"RETRYSAFE_PUBLIC_URL" placeholder:"URL" group:"Operation"`
	SecretFile  string `setting:"secret.file" env:"RETRYSAFE_SECRET_FILE" placeholder:"FILE" group:"Operation"`
	Encryption  string `setting:"encryption.file" name:"encryption" env:"RETRYSAFE_ENCRYPTION_KEYSET" placeholder:"FILE" group:"Operation"`
	JWTIssuer   string `setting:"jwt.issuer" name:"jwt-issuer" env:"RETRYSAFE_JWT_ISSUER" placeholder:"ISS" group:"Callers"`
	JWTAudience string `setting:"jwt.audience" name:"jwt-audience" env:"RETRYSAFE_JWT_AUDIENCE" placeholder:"AUD" group:"Callers"`
	TLSCert     string `setting:"tls.cert" name:"tls-cert" env:"RETRYSAFE_TLS_CERT" placeholder:"FILE" group:"Callers"`
	TLSKey      string `setting:"tls.key" name:"tls-key" env:"RETRYSAFE_TLS_KEY" placeholder:"FILE" group:"Callers"`
	ClientCA    string `setting:"tls.client_ca" name:"client-ca" env:"RETRYSAFE_CLIENT_CA" placeholder:"FILE" group:"Callers"`
	H2C         *bool  `setting:"h2c" name:"h2c" env:"RETRYSAFE_H2C" group:"Callers"`
}

// Help shows the usual ways.
func (Cmd) Help() string {
	return `A flag can also be set in the environment, --upstream as RETRYSAFE_UPSTREAM; not so --check, --offline and
--schema.

Examples:

    # callers are identified by their Authorization header
    retrysafe proxy --upstream http://localhost:3000 --listen :8080

    # behind a gateway that sets X-Tenant; keys in memory only
    retrysafe proxy --upstream http://localhost:3000 --scope header:X-Tenant --store memory:

    # verified tokens: a renewed token is the same caller
    retrysafe proxy --upstream http://localhost:3000 --scope jwt:https://login.example.com/jwks.json \
        --jwt-issuer https://login.example.com

    # several proxies share a database: create its schema first
    retrysafe migrate up --store postgres://owner@db/shop --role app
    retrysafe proxy --upstream http://localhost:3000 --store postgres://app@db/shop

    # without risk: nothing is refused, delayed or replayed, and the report says what would have been
    retrysafe proxy --upstream http://localhost:3000 --observe --admin 127.0.0.1:8081
    retrysafe report http://127.0.0.1:8081

    # the keys and the traffic in a browser, for users of this machine
    retrysafe proxy --upstream http://localhost:3000 --dashboard 127.0.0.1:8082

    # settings for each route
    retrysafe proxy --config proxy.yaml --check
    retrysafe proxy --config proxy.yaml --check --offline   # in a pipeline without store and upstream

A file:

    upstream: http://localhost:3000
    scope: credential
    defaults:
      retention: {replay: 24h}
    routes:
      POST /payments:
        required: true
        retention: {replay: 72h, key: 30d}
      POST /reports:
        timeout: 10m
        in_flight: wait:20s

A file for a service that completes its keys in its own transactions (retrysafe.complete, in docs/exactly-once.md):

    upstream: http://localhost:3000
    store: postgres://app@db/shop
    routes:
      POST /charges:
        complete: upstream
        timeout: 20s

SIGHUP reloads the file and the files that it names while requests run; --watch does so when they change. Without
--config, SIGHUP ends the proxy as SIGTERM does.

The exit status is 0 after a normal shutdown, 1 after a failure, 2 if flags or file are wrong.`
}

// Run serves until a signal arrives.
func (p Cmd) Run(s *cli.Streams) error {
	if p.Offline && !p.Check {
		return cli.Refusef("--offline needs --check: write --check --offline")
	}
	if p.Schema {
		_, err := fmt.Fprint(s.Out, config.Schema())
		return err
	}
	first, err := p.read()
	if err != nil {
		return err
	}
	if p.Check {
		return p.check(s, first.plan)
	}
	return p.run(context.Background(), first, s.Err)
}

// check prints the configuration in force, and on standard error its warnings and the result of each check.
func (p Cmd) check(s *cli.Streams, plan *plan) error {
	plan.config.Store.Value = plan.store.Name // without its password
	if _, err := fmt.Fprint(s.Out, plan.config.Effective()); err != nil {
		return err
	}
	for _, w := range plan.config.Warnings() {
		fmt.Fprintf(s.Err, "warning: %v\n", plan.config.Show(w))
	}
	if p.Offline {
		return nil
	}
	return plan.try(context.Background(), s.Err)
}

// configuration is the file, overridden by flags, with defaults filled in.
func (p Cmd) configuration() (*config.Config, error) {
	c := &config.Config{}
	if p.Config != "" {
		var err error
		if c, err = config.Load(p.Config); err != nil {
			return nil, err
		}
	}
	if err := p.override(c); err != nil {
		return nil, err
	}
	if p.Observe {
		c.ObserveAll()
	}
	if !c.Upstream.URL.Set && !c.ExtProc.Value {
		return nil, fmt.Errorf("no upstream: say where requests go, as in --upstream http://localhost:3000, or that Envoy " +
			"knows it: --ext-proc")
	}
	if c.Watch.Value && p.Config == "" {
		return nil, fmt.Errorf("there is no file to watch: name one, as in --config proxy.yaml")
	}
	if c.Metrics.Value && !c.Admin.Set {
		return nil, fmt.Errorf("metrics need an address: say where to serve them, as in --admin 127.0.0.1:8081")
	}
	if c.MetricsScan.Set && !c.Metrics.Value {
		return nil, c.Locate(c.MetricsScan.At, fmt.Errorf("metrics_scan is for metrics, which are off: write metrics: true "+
			"too, or leave metrics_scan out"))
	}
	if err := c.FillIn(); err != nil {
		return nil, err
	}
	if c.Observes() && !c.Admin.Set {
		return nil, fmt.Errorf("observe mode needs an address for its report: say where to serve it, as in --admin 127.0.0.1:8081")
	}
	for _, to := range c.Upstreams() {
		if isSelf(to.Value, c.Listen.Value) {
			return nil, c.Locate(to.At, fmt.Errorf("the upstream %s is this proxy itself, which listens at %s: name "+
				"the service behind it", to.Value, c.Listen.Value))
		}
	}
	return c, nil
}

// checkVariables refuses misspelt environment variables: a setting that is not in force would go unnoticed.
func checkVariables(environ []string) error {
	var known []string
	for f := range reflect.TypeFor[Cmd]().Fields() {
		if name := f.Tag.Get("env"); name != "" {
			known = append(known, name)
		}
	}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if near := yamlfile.Nearest(name, known); strings.HasPrefix(name, "RETRYSAFE_") && near != "" && near != name {
			return fmt.Errorf("the environment variable %s is unknown; did you mean %s?", name, near)
		}
	}
	return nil
}

// isSelf reports whether an upstream is the address at which the proxy listens, on this machine.
func isSelf(upstream *url.URL, listen string) bool {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || upstream.Port() != port {
		return false
	}
	local := func(host string) bool {
		ip := net.ParseIP(host)
		return host == "" || host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
	}
	return local(host) && local(upstream.Hostname()) || host == upstream.Hostname()
}

// override puts the flags that are set into c.
func (p Cmd) override(c *config.Config) error {
	var faults []error
	v := reflect.ValueOf(p)
	for i := range v.NumField() {
		tag, flag := v.Type().Field(i).Tag, v.Field(i)
		if setting := tag.Get("setting"); setting != "" && !flag.IsZero() {
			name := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(tag.Get("env"), "RETRYSAFE")), "_", "-")
			faults = append(faults, c.Override(setting, "-"+name, fmt.Sprint(reflect.Indirect(flag))))
		}
	}
	if p.SecretFile != "" {
		c.Secret.Env = config.Setting[string]{}
	}
	return errors.Join(faults...)
}

// FlagHelp is the help of a flag: of one that overrides a setting, the setting's.
func FlagHelp(v *kong.Value) string {
	if setting := v.Tag.Get("setting"); setting != "" {
		v.Help = config.Help(setting)
	}
	return kong.DefaultHelpValueFormatter(v)
}
