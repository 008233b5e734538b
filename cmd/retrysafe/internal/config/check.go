package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
)

// check looks at what makes no sense together.
func (r *reader) check(c *Config) {
	r.checkTLS(c.TLS)
	r.checkPatterns(c.Routes)
	r.checkRoute(c, c.Defaults, "")
	for _, t := range c.Routes {
		r.checkRoute(c, t.Over(c.Defaults), t.Pattern.Value)
	}
}

func (r *reader) at(p Position, message, instead string) {
	f := Fault{At: p, Message: message, Instead: instead}
	if !slices.Contains(r.faults, f) { // what defaults say wrongly is wrong once, not in each route
		r.faults = append(r.faults, f)
	}
}

func (r *reader) checkTLS(t TLS) {
	if t.Cert.Set != t.Key.Set {
		r.at(cmp.Or(t.Cert.At, t.Key.At), "a certificate needs its key, and a key its certificate", "write both cert: and key:")
	}
	if t.ClientCA.Set && !t.Cert.Set {
		r.at(t.ClientCA.At, "client certificates are part of TLS, which is not on", "write cert: and key: as well")
	}
}

// checkPatterns finds patterns that cannot be read, that are there twice, or that contradict each other.
func (r *reader) checkPatterns(routes []Route) {
	patterns := make([]string, len(routes))
	for i, t := range routes {
		patterns[i] = t.Pattern.Value
	}
	for _, bad := range proxy.CheckPatterns(patterns) {
		at := routes[bad.Index].Pattern.At
		if bad.With < 0 {
			r.at(at, fmt.Sprintf("%q is no pattern: %s", patterns[bad.Index], bad.Reason),
				`write a method and a path as in "POST /payments/{id}"`)
			continue
		}
		other := routes[bad.With].Pattern
		r.at(at, fmt.Sprintf("%q conflicts with %q in line %d: neither is the more specific",
			patterns[bad.Index], other.Value, other.At.Line), "make one of them match less")
	}
}

// checkRoute looks at a route with its defaults filled in. An empty pattern is that of the defaults themselves.
func (r *reader) checkRoute(c *Config, t Route, pattern string) {
	r.checkRetention(t)
	r.checkTimes(t)
	if t.Profile.Set {
		if _, err := httpsafe.ProfileByName(t.Profile.Value); err != nil {
			r.at(t.Profile.At, err.Error(), "")
		}
	}
	if t.Required.Value && t.Key.Value.BodyHash != nil {
		r.at(t.Required.At, "a key made of the body is never missing", "leave required out")
	}
	if t.Key.Value.BodyHash != nil && !c.Secret.Env.Set && !c.Secret.File.Set {
		r.at(t.Key.At, "keys made of the body need a secret", "write secret: {env: NAME} at the top of the file")
	}
	if n := t.Key.Value.Natural; n != nil && pattern != "" {
		r.checkPathValues(n, pattern)
	}
	if t.Fingerprint.Value.Kind == "fields" {
		f := retrysafe.Fields{Include: t.Fingerprint.Value.Include.Value, Exclude: t.Fingerprint.Value.Exclude.Value}
		if err := f.Validate(); err != nil {
			r.at(t.Fingerprint.At, err.Error(), "")
		}
	}
}

func (r *reader) checkRetention(t Route) {
	k, replay := t.Retention, t.replay()
	if k.Key.Set && k.Key.Value < replay {
		r.at(k.Replay.At, fmt.Sprintf("answers cannot be replayed for %v when their keys are free after %v", replay, k.Key.Value),
			"make retention.key at least as long as retention.replay")
	}
	if k.Audit.Set && k.Audit.Value < replay {
		r.at(k.Audit.At, fmt.Sprintf("records cannot go after %v when answers are replayed for %v", k.Audit.Value, replay),
			"make retention.audit at least as long as retention.replay")
	}
}

const (
	shortestLease = time.Second
	longestLease  = 24 * time.Hour
)

func (r *reader) checkTimes(t Route) {
	if t.Lease.Set && (t.Lease.Value < shortestLease || t.Lease.Value > longestLease) {
		r.at(t.Lease.At, fmt.Sprintf("a lease of %v is not useful: heartbeats come every third of it, and a crash blocks the key as long",
			t.Lease.Value), "write 1s to 24h; 30s suits most. How long the work may take is timeout:")
	}
}

var wildcard = regexp.MustCompile(`\{([^}.$]+)(\.\.\.)?\}`)

// checkPathValues finds path values that the pattern does not have.
func (r *reader) checkPathValues(n *Natural, pattern string) {
	var names []string
	for _, m := range wildcard.FindAllStringSubmatch(pattern, -1) {
		names = append(names, m[1])
	}
	for _, want := range n.Path.Value {
		if !slices.Contains(names, want) {
			r.at(n.Path.At, fmt.Sprintf("the pattern %q has no {%s}", pattern, want), "")
		}
	}
}

func parseCount(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 1_000_000 {
		return 0, &wrong{fmt.Sprintf("%q is no number from 1 to 1000000", s), ""}
	}
	return n, nil
}

// inOrder sorts faults by their place in the file.
func inOrder(faults []Fault) []Fault {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column))
	})
	return faults
}
