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
	o := proxy.Options{Upstream: proxy.Upstream{TLS: roots}, Default: c.route(c.Defaults, secret)}
	apply(c, &o)
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

// route returns the proxy's route for one whose defaults are filled in.
func (c *Config) route(t Route, secret []byte) proxy.Route {
	r := t.options(secret)
	r.BodyTimeout = c.Limits.BodyTimeout.Value
	return r
}

// options returns the proxy's route. Most settings set one of its options each, which their tags name; here are those
// that do more.
func (t Route) options(secret []byte) proxy.Route {
	r := proxy.Route{
		Pattern: t.Pattern.Value,
		HTTP: httpsafe.Options{
			Profile: t.profile(), Secret: secret, Fingerprint: t.Fingerprint.Value.method(),
			CompletedElsewhere: t.completesUpstream(),
			InFlightStatus:     t.InFlight.Value.Status,
			RespondAsync:       t.InFlight.Value.Status,
		},
		Policy:    retrysafe.Policy{OnInFlight: t.InFlight.Value.InFlightPolicy},
		Unguarded: !t.isGuarded(),
	}
	apply(&t, &r)
	if t.Statuses.Set {
		r.HTTP.Profile.Class = t.Statuses.Value.class(r.HTTP.WithDefaults().Profile.Class)
	}
	t.setKey(&r.HTTP)
	r.Policy.Retention.Replay = t.replay()
	if r.UpstreamKey == noUpstreamKey {
		r.UpstreamKey = ""
	}
	if t.completesUpstream() {
		r.Policy = r.Policy.CompletedElsewhere()
	}
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
		apply(k.Natural, &source)
		o.KeySource = source
	case k.BodyHash != nil:
		source := httpsafe.BodyHash{Secret: o.Secret}
		apply(k.BodyHash, &source)
		o.KeySource = source
	}
}

// inForce returns the route with what the profile and the library do where it says nothing.
func (t Route) inForce() Route {
	r, rules := t.options(nil), t.rules()
	r.HTTP, r.Policy = r.HTTP.WithDefaults(), r.Policy.WithDefaults()
	r.HTTP.Profile.Required, r.HTTP.Ambiguous = rules.Required, rules.Ambiguous
	adopt(&t, &r)
	t.Key.Set = true
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
	d := cmp.Or(t.profile().Retention, retrysafe.DefaultRetention)
	if t.Retention.Key.Set {
		d = min(d, t.Retention.Key.Value)
	}
	return d
}

// rules returns what is in force for the route.
func (t Route) rules() httpsafe.Rules {
	r := t.options(nil)
	return r.HTTP.Rules(t.Pattern.Value, r.Policy)
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
	switch {
	case f.Kind == "raw":
		return httpsafe.FingerprintRaw()
	case f.Kind == "json":
		return httpsafe.FingerprintJSON()
	case f.Kind == "form":
		return httpsafe.FingerprintForm()
	case f.Kind == "multipart":
		return httpsafe.FingerprintMultipart()
	case f.Kind == "none":
		return httpsafe.FingerprintNone()
	case f.isFields():
		return httpsafe.FingerprintFields(fingerprint.Fields{Include: f.Include.Value, Exclude: f.Exclude.Value})
	}
	return httpsafe.FingerprintMethod{} // the profile's
}
