package config

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
)

const shortestSecret = 16

// LoadSecret returns the secret for fingerprints; nil if there is none.
func (c *Config) LoadSecret() ([]byte, error) {
	var secret []byte
	switch {
	case c.Secret.Env.Set:
		secret = []byte(os.Getenv(c.Secret.Env.Value))
		if len(secret) == 0 {
			return nil, fmt.Errorf("secret: the environment has no %s", c.Secret.Env.Value)
		}
	case c.Secret.File.Set:
		var err error
		if secret, err = os.ReadFile(c.Secret.File.Value); err != nil {
			return nil, fmt.Errorf("secret: %w", err)
		}
		secret = bytes.TrimRight(secret, "\r\n")
	default:
		return nil, nil
	}
	if len(secret) < shortestSecret {
		return nil, fmt.Errorf("secret: %d bytes are too few; make one with: head -c 32 /dev/urandom | base64", len(secret))
	}
	return secret, nil
}

// Proxy returns the proxy's options. FillIn comes before.
func (c *Config) Proxy(secret []byte) (proxy.Options, error) {
	roots, err := loadRoots(c.Upstream.CA)
	if err != nil {
		return proxy.Options{}, err
	}
	o := proxy.Options{
		Upstream: proxy.Upstream{
			URL:            c.Upstream.URL.Value,
			PreserveHost:   c.Upstream.PreserveHost.Value,
			TrustForwarded: c.Upstream.TrustForwarded.Value,
			DialTimeout:    c.Upstream.DialTimeout.Value,
			HeaderTimeout:  c.Upstream.HeaderTimeout.Value,
			IdleTimeout:    c.Upstream.IdleTimeout.Value,
			TLS:            roots,
		},
		AuthURL:   c.Auth.Value,
		PublicURL: c.PublicURL.Value,
		Limits: proxy.Limits{
			Concurrent:          c.Limits.Concurrent.Value,
			ConcurrentPerCaller: c.Limits.ConcurrentPerCaller.Value,
			KeysPerCaller:       c.Limits.KeysPerCaller.Value,
			Memory:              c.Limits.Memory.Value,
			WriteTimeout:        c.Limits.WriteTimeout.Value,
		},
		Default: c.route(c.Defaults, secret),
	}
	for _, t := range c.overridden() {
		o.Routes = append(o.Routes, c.route(t, secret))
	}
	return o, nil
}

// loadRoots returns the TLS settings that trust what signed with a file's certificates; nil: the system decides.
func loadRoots(file Setting[string]) (*tls.Config, error) {
	if !file.Set {
		return nil, nil
	}
	pool, err := LoadCertificates(file.Value)
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: pool}, nil
}

// LoadCertificates reads a file of certificates.
func LoadCertificates(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", path)
	}
	return pool, nil
}

// route translates a route whose defaults are filled in.
func (c *Config) route(t Route, secret []byte) proxy.Route {
	if t.UpstreamKey.Value == noUpstreamKey {
		t.UpstreamKey.Value = ""
	}
	return proxy.Route{
		Pattern:       t.Pattern.Value,
		Unguarded:     !t.isGuarded(),
		Policy:        t.policy(),
		HTTP:          t.http(secret),
		Stream:        t.Stream.Value,
		UpstreamKey:   t.UpstreamKey.Value,
		AttemptHeader: t.AttemptHeader.Value,
		BodyTimeout:   c.Limits.BodyTimeout.Value,
	}
}

// inForce returns the route with what the profile and the library do where it says nothing.
func (t Route) inForce() Route {
	if !t.isGuarded() {
		return Route{Pattern: t.Pattern, Guarded: t.Guarded}
	}
	rules, policy := t.rules(), t.policy().WithDefaults()
	t.Guarded = Setting[bool]{}
	t.Profile = Given(rules.Profile)
	t.Required = Given(rules.Required)
	t.Methods = Given(rules.Methods)
	t.Key.Set = true
	t.ScopeRoute = Given(rules.ScopeRoute)
	t.Retention = Retention{
		Replay: Given(policy.Retention.Replay), Key: Given(policy.Retention.Key), Audit: Given(policy.Retention.Audit),
	}
	t.Lease.Value = policy.Lease
	t.Timeout.Value = policy.Timeout
	t.Abandoned.Default(policy.OnAbandoned.String())
	t.StoreError.Default("closed")
	t.Ambiguous = Given(rules.Ambiguous.String())
	t.TrustUnavailable.Set = true
	t.MaxRequest = Given(rules.MaxRequestBytes)
	t.MaxResponse = Given(rules.MaxResponseBytes)
	t.Stream.Set = true
	return t
}

func (t Route) policy() retrysafe.Policy {
	p := retrysafe.Policy{
		Lease:   t.Lease.Value,
		Timeout: t.Timeout.Value,
		Retention: retrysafe.Retention{
			Replay: t.replay(),
			Key:    t.Retention.Key.Value,
			Audit:  t.Retention.Audit.Value,
		},
		MaxResult:    int(t.MaxResponse.Value),
		OnInFlight:   retrysafe.Reject(),
		OnAbandoned:  retrysafe.Refuse(),
		OnStoreError: retrysafe.FailClosed,
		HoldUnsaved:  t.HoldUnsaved.Value,
	}
	if t.InFlight.Value.Kind == "wait" {
		p.OnInFlight = retrysafe.Wait(t.InFlight.Value.Wait)
	}
	if t.Abandoned.Value == "rerun" {
		p.OnAbandoned = retrysafe.Rerun()
	}
	if t.StoreError.Value == "open" {
		p.OnStoreError = retrysafe.FailOpen
	}
	if t.completesUpstream() {
		if !t.Abandoned.Set {
			p.OnAbandoned = retrysafe.AbandonedPolicy{}
		}
		return p.CompletedElsewhere()
	}
	return p
}

// completesUpstream reports whether the upstream completes the keys of the route.
func (t Route) completesUpstream() bool { return t.isGuarded() && t.Complete.Value == "upstream" }

// CompletesUpstream reports whether the upstream completes the keys of a route.
func (c *Config) CompletesUpstream() bool {
	return slices.ContainsFunc(append(c.overridden(), c.Defaults), Route.completesUpstream)
}

// replay is for how long answers are replayed: as the route says, or else as its profile has it, but no longer than
// the route keeps the key.
func (t Route) replay() time.Duration {
	if t.Retention.Replay.Set {
		return t.Retention.Replay.Value
	}
	d := cmp.Or(t.profile().Retention, retrysafe.DefaultRetention)
	if t.Retention.Key.Set {
		d = min(d, t.Retention.Key.Value)
	}
	return d
}

func (t Route) http(secret []byte) httpsafe.Options {
	o := httpsafe.Options{
		Profile:        t.profile(),
		Secret:         secret,
		MaxRequestBody: t.MaxRequest.Value,
		InFlightStatus: t.InFlight.Value.Kind == "status",
		RespondAsync:   t.InFlight.Value.Kind == "status",
		Fingerprint:    t.Fingerprint.Value.method(),

		TrustUnavailable:   t.TrustUnavailable.Value,
		CompletedElsewhere: t.completesUpstream(),
		Attempts:           t.Attempts.Value,
	}
	if t.Methods.Set {
		o.Profile.Methods = t.Methods.Value
	}
	if t.Required.Set {
		o.Profile.Required = t.Required.Value
	}
	if t.ScopeRoute.Set {
		o.Profile.ScopeRoute = t.ScopeRoute.Value
	}
	switch t.Ambiguous.Value {
	case "store":
		o.Ambiguous = retrysafe.AmbiguousStore
	case "release":
		o.Ambiguous = retrysafe.AmbiguousRelease
	case "unknown":
		o.Ambiguous = retrysafe.AmbiguousUnknown
	}
	switch k := t.Key.Value; {
	case k.Header.Set:
		o.Profile = o.Profile.WithHeader(k.Header.Value)
	case k.Natural != nil:
		o.KeySource = httpsafe.NaturalKey{
			PathValues: k.Natural.Path.Value, Fields: k.Natural.Fields.Value,
			Reference: k.Natural.Reference.Value,
		}
	case k.BodyHash != nil:
		o.KeySource = httpsafe.BodyHash{
			Secret: secret, Fields: fingerprint.Fields{Include: k.BodyHash.Fields.Value},
			Intent: k.BodyHash.Intent.Value,
		}
	}
	return o
}

// rules returns what is in force for the route.
func (t Route) rules() httpsafe.Rules {
	return t.http(nil).Rules(t.Pattern.Value, t.policy())
}

// profile returns the route's profile; check has seen that it exists.
func (t Route) profile() httpsafe.Profile {
	p, err := httpsafe.ProfileByName(t.Profile.Value)
	if err != nil {
		return httpsafe.IETF()
	}
	return p
}

func (f Fingerprint) method() httpsafe.FingerprintMethod {
	switch f.Kind {
	case "raw":
		return httpsafe.FingerprintRaw()
	case "json":
		return httpsafe.FingerprintJSON()
	case "form":
		return httpsafe.FingerprintForm()
	case "multipart":
		return httpsafe.FingerprintMultipart()
	case "none":
		return httpsafe.FingerprintNone()
	}
	if f.isFields() {
		return httpsafe.FingerprintFields(fingerprint.Fields{Include: f.Include.Value, Exclude: f.Exclude.Value})
	}
	return httpsafe.FingerprintMethod{} // the profile's
}
