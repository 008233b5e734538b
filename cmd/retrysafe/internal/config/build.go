package config

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/reconcile"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
	"github.com/retrysafe/retrysafe/outbox/webhook"
	"github.com/retrysafe/retrysafe/proxy"
)

const shortestSecret = 16

// secrets are what must not be in the file.
type secrets struct {
	fingerprint []byte          // nil: there is none
	reconcile   webhook.Secrets // nil: no route needs one
}

// loadSecrets reads the secrets from where the file says that they are.
func (c *Config) loadSecrets() (s secrets, err error) {
	if s.fingerprint, err = c.Secret.loadLong("secret"); err != nil {
		return s, err
	}
	text, err := c.ReconcileSecret.load("reconcile_secret")
	if err != nil || text == nil {
		return s, err
	}
	if s.reconcile, err = webhook.ParseSecrets(strings.Fields(string(text))...); err != nil {
		return s, fmt.Errorf("reconcile_secret: %w; make one with: echo whsec_$(head -c 32 /dev/urandom | base64)", err)
	}
	if s.reconcile.Sign("", time.Time{}, nil) == "" {
		return s, errors.New("reconcile_secret: a public key cannot sign; it is for the service: write the private one, whsk_…")
	}
	return s, nil
}

// loadLong returns a secret of at least shortestSecret bytes; nil if the file names none. name is the field's.
func (s Secret) loadLong(name string) ([]byte, error) {
	secret, err := s.load(name)
	if n := len(secret); err == nil && s.isSet() && n < shortestSecret {
		return nil, fmt.Errorf("%s: %d bytes are too few; make one with: head -c 32 /dev/urandom | base64", name, n)
	}
	return secret, err
}

func (s Secret) isSet() bool { return s.Env.Set || s.File.Set }

// load returns the secret; nil if the file names none. name is the field's.
func (s Secret) load(name string) (secret []byte, err error) {
	switch {
	case s.Env.Set:
		if secret = []byte(os.Getenv(s.Env.Value)); len(secret) == 0 {
			return nil, fmt.Errorf("%s: the environment has no %s", name, s.Env.Value)
		}
	case s.File.Set:
		if secret, err = os.ReadFile(s.File.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		secret = bytes.TrimRight(secret, "\r\n")
	}
	return secret, nil
}

// Guard returns the options of the Guard that the proxy has. FillIn comes before.
func (c *Config) Guard() (o retrysafe.Options, err error) {
	o.ChildSecret, err = c.UpstreamKeySecret.loadLong("upstream_key_secret")
	return o, err
}

// Proxy returns the proxy's options. FillIn comes before.
func (c *Config) Proxy() (proxy.Options, error) {
	known, err := c.loadSecrets()
	if err != nil {
		return proxy.Options{}, err
	}
	roots, err := loadRoots(c.Upstream.CA)
	if err != nil {
		return proxy.Options{}, err
	}
	o := proxy.Options{Upstream: proxy.Upstream{TLS: roots}}
	if o.Default, err = c.route(c.Defaults, known); err != nil {
		return proxy.Options{}, err
	}
	settings.Apply(c, &o)
	if c.ExtProc.Value {
		c.sendThroughEnvoy(&o)
	}
	for _, t := range c.overridden() {
		r, err := c.route(t, known)
		if err != nil {
			return proxy.Options{}, err
		}
		o.Routes = append(o.Routes, r)
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

// route returns the proxy's route for one whose defaults are filled in.
func (c *Config) route(t Route, known secrets) (r proxy.Route, err error) {
	r = t.options(known)
	r.BodyTimeout, r.HTTP.KeyPages = c.Limits.BodyTimeout.Value, c.Dashboard.keyPages()
	r.Scope = t.scopeFunc()
	r.HTTP.VerifyFunc, err = t.verifyFunc()
	return r, err
}

// options returns the proxy's route. Most settings set one of its options each, which their tags name; here are those
// that do more.
func (t Route) options(known secrets) proxy.Route {
	r := proxy.Route{
		Pattern: t.Pattern.Value,
		HTTP: httpsafe.Options{
			Profile: t.profile(), Secret: known.fingerprint,
			CompletedElsewhere: t.completesUpstream(),
			InFlightStatus:     t.InFlight.Value.Status,
			RespondAsync:       t.InFlight.Value.Status,
		},
		Policy:    retrysafe.Policy{OnInFlight: t.InFlight.Value.InFlightPolicy},
		Unguarded: !t.isGuarded(), Observed: t.observes(), EnforceFor: t.enforced(),
	}
	settings.Apply(&t, &r)
	t.ApplyConventions(&r.HTTP.Profile)
	t.setKey(&r.HTTP)
	r.Policy.Retention.Replay = t.replay()
	r.Policy.Retention.Key = cmp.Or(r.Policy.Retention.Key, r.HTTP.Profile.Records.Key)
	if r.UpstreamKey == noUpstreamKey {
		r.UpstreamKey = ""
	}
	if t.Reconcile.Set {
		r.Policy.OnAbandoned = reconcile.Service{URL: t.Reconcile.Value, Secrets: known.reconcile}.
			Policy(t.Pattern.Value, r.HTTP.Profile)
	}
	if t.completesUpstream() {
		r.Policy = r.Policy.CompletedElsewhere()
	}
	r.HTTP.Required = r.HTTP.Required || t.acceptsInbox() // as HTTP.Inbox, which comes later, has it
	return r
}

// setKey says where the keys come from.
func (t Route) setKey(o *httpsafe.Options) {
	switch k := t.Key.Value; {
	case k.Header.Set:
		o.Profile = o.Profile.WithHeader(k.Header.Value)
	case k.Body.Set || k.Query.Set:
		o.KeySource = httpsafe.KeyInBody{Pointer: k.Body.Value, Query: k.Query.Value}
	case k.Natural != nil:
		var source httpsafe.NaturalKey
		settings.Apply(k.Natural, &source)
		o.KeySource = source
	case k.BodyHash != nil:
		source := httpsafe.BodyHash{Secret: o.Secret}
		settings.Apply(k.BodyHash, &source)
		o.KeySource = source
	}
}

// inForce returns the route with what the profile and the library do where it says nothing.
func (t Route) inForce() Route {
	r, rules := t.options(secrets{}), t.rules()
	r.HTTP, r.Policy = r.HTTP.WithDefaults(), r.Policy.WithDefaults()
	r.HTTP.Profile.Required, r.HTTP.Ambiguous = rules.Required, rules.Ambiguous
	settings.Adopt(&t, &r)
	t.Key.Set = true
	t.Profile.Default(Profile{httpsafe.IETF(), httpsafe.IETF().Name})
	if t.Reconcile.Set { // which says it
		t.Abandoned = Setting[retrysafe.AbandonedPolicy]{}
	}
	return t
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
	p := t.profile()
	d := cmp.Or(p.Records.Replay, p.Retention, retrysafe.DefaultRetention)
	if t.Retention.Key.Set {
		d = min(d, t.Retention.Key.Value)
	}
	return d
}

// rules returns what is in force for the route.
func (t Route) rules() httpsafe.Rules {
	r := t.options(secrets{})
	return r.HTTP.Rules(t.Pattern.Value, r.Policy)
}

// profile returns the route's profile.
func (t Route) profile() httpsafe.Profile {
	if t.Profile.Value.named == "" {
		return httpsafe.IETF()
	}
	return t.Profile.Value.Profile
}
