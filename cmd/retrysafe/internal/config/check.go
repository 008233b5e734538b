package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
)

// check looks at what makes no sense together.
func (c *Config) check(r *yamlfile.Reader) {
	c.TLS.check(r)
	checkPatterns(r, c.Routes)
	c.checkRoute(r, c.Defaults, "")
	for _, t := range c.Routes {
		c.checkRoute(r, t.Over(c.Defaults), t.Pattern.Value)
	}
}

func (t TLS) check(r *yamlfile.Reader) {
	if t.Cert.Set != t.Key.Set {
		r.FaultAt(cmp.Or(t.Cert.At, t.Key.At), "a certificate needs its key, and a key its certificate", "write both cert: and key:")
	}
	if t.ClientCA.Set && !t.Cert.Set {
		r.FaultAt(t.ClientCA.At, "client certificates are part of TLS, which is not on", "write cert: and key: as well")
	}
}

// checkPatterns finds patterns that cannot be read, that are there twice, or that contradict each other.
func checkPatterns(r *yamlfile.Reader, routes []Route) {
	patterns := make([]string, len(routes))
	for i, t := range routes {
		patterns[i] = t.Pattern.Value
	}
	for _, bad := range proxy.CheckPatterns(patterns) {
		at := routes[bad.Index].Pattern.At
		if bad.With < 0 {
			r.FaultAt(at, fmt.Sprintf("%q is no pattern: %s", patterns[bad.Index], bad.Reason),
				`write a method and a path as in "POST /payments/{id}"`)
			continue
		}
		other := routes[bad.With].Pattern
		r.FaultAt(at, fmt.Sprintf("%q conflicts with %q in line %d: neither is the more specific",
			patterns[bad.Index], other.Value, other.At.Line), "make one of them match less")
	}
}

// checkRoute looks at a route with its defaults filled in. An empty pattern is that of the defaults themselves.
func (c *Config) checkRoute(r *yamlfile.Reader, t Route, pattern string) {
	t.checkRetention(r)
	t.checkTimes(r)
	if t.Profile.Set {
		if _, err := httpsafe.ProfileByName(t.Profile.Value); err != nil {
			r.FaultAt(t.Profile.At, err.Error(), "")
		}
	}
	if t.Required.Value && t.Key.Value.BodyHash != nil {
		r.FaultAt(t.Required.At, "a key made of the body is never missing", "leave required out")
	}
	if t.Key.Value.BodyHash != nil && !c.Secret.Env.Set && !c.Secret.File.Set {
		r.FaultAt(t.Key.At, "keys made of the body need a secret", "write secret: {env: NAME} at the top of the file")
	}
	if n := t.Key.Value.Natural; n != nil && pattern != "" {
		n.check(r, pattern)
	}
	if t.Fingerprint.Value.Kind == "fields" {
		f := retrysafe.Fields{Include: t.Fingerprint.Value.Include.Value, Exclude: t.Fingerprint.Value.Exclude.Value}
		if err := f.Validate(); err != nil {
			r.FaultAt(t.Fingerprint.At, err.Error(), "")
		}
	}
}

func (t Route) checkRetention(r *yamlfile.Reader) {
	k, replay := t.Retention, t.replay()
	if k.Key.Set && k.Key.Value < replay {
		r.FaultAt(k.Replay.At, fmt.Sprintf("answers cannot be replayed for %v when their keys are free after %v", replay, k.Key.Value),
			"make retention.key at least as long as retention.replay")
	}
	if k.Audit.Set && k.Audit.Value < replay {
		r.FaultAt(k.Audit.At, fmt.Sprintf("records cannot go after %v when answers are replayed for %v", k.Audit.Value, replay),
			"make retention.audit at least as long as retention.replay")
	}
}

const (
	shortestLease = time.Second
	longestLease  = 24 * time.Hour
)

func (t Route) checkTimes(r *yamlfile.Reader) {
	if t.Lease.Set && (t.Lease.Value < shortestLease || t.Lease.Value > longestLease) {
		r.FaultAt(t.Lease.At, fmt.Sprintf("a lease of %v is not useful: heartbeats come every third of it, and a crash blocks the key as long",
			t.Lease.Value), "write 1s to 24h; 30s suits most. How long the work may take is timeout:")
	}
}

var wildcard = regexp.MustCompile(`\{([^}.$]+)(\.\.\.)?\}`)

// check finds path values that the pattern does not have.
func (k *Natural) check(r *yamlfile.Reader, pattern string) {
	var names []string
	for _, m := range wildcard.FindAllStringSubmatch(pattern, -1) {
		names = append(names, m[1])
	}
	for _, want := range k.Path.Value {
		if !slices.Contains(names, want) {
			r.FaultAt(k.Path.At, fmt.Sprintf("the pattern %q has no {%s}", pattern, want), "")
		}
	}
}
