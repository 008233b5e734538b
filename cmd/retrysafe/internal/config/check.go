package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/dashboard"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// check looks at what makes no sense together.
func (c *Config) check(r *yamlfile.Reader) {
	c.TLS.check(r)
	c.Dashboard.check(r)
	if s := c.MetricsScan; s.Set && s.Value < minMetricsScan {
		r.FaultAt(s.At, fmt.Sprintf("a scan reads all records of the store, and %v is too often for that", s.Value),
			"write "+minMetricsScanText+" or more, or leave metrics_scan out")
	}
	if c.Traces.Sample.Set && !c.Traces.OTLP.Set {
		r.FaultAt(c.Traces.Sample.At, "no span is sent anywhere", "write otlp: too, with the URL of a collector")
	}
	yamlfile.Secretly(c.checkCallers)(r, nil)
	c.checkUpstreamKeySecret(r)
	c.checkEncryption(r)
	c.checkExtProc(r)
	checkPatterns(r, c.Routes)
	c.checkRoute(r, c.Defaults, "")
	for _, t := range c.overridden() {
		c.checkRoute(r, t, t.Pattern.Value)
	}
}

// minMetricsScan is how often all records of a store may be read for metrics.
const (
	minMetricsScan     = 15 * time.Minute
	minMetricsScanText = "15m"
)

// checkCallers finds names that no request has, so that the caller would have one credential as before. Some users
// write the credential itself.
func (c *Config) checkCallers(r *yamlfile.Reader, _ ast.Node) {
	for _, same := range c.Callers {
		for _, name := range same.known {
			switch {
			case c.Scope.Value == "none":
				r.FaultAt(same.at, "with scope: none all requests have the same caller", "leave callers or scope: none out")
			case (!c.Scope.Set || c.Scope.Value == "credential") && !isDigest.MatchString(name):
				r.FaultAt(same.at, "a caller is named by the hash of the credential, and this is none",
					"write 'sha256:…' with what this prints: printf %s 'Bearer KEY' | sha256sum")
			}
		}
	}
}

// checkUpstreamKeySecret finds a secret that no route needs.
func (c *Config) checkUpstreamKeySecret(r *yamlfile.Reader) {
	sends := func(t Route) bool { return t.isGuarded() && t.UpstreamKey.Set && t.UpstreamKey.Value != noUpstreamKey }
	if s := c.UpstreamKeySecret; s.isSet() && !slices.ContainsFunc(append(c.overridden(), c.Defaults), sends) {
		r.FaultAt(cmp.Or(s.Env.At, s.File.At), "no route sends the key that the secret is for",
			"write upstream_key: HEADER in a route or in defaults, or leave upstream_key_secret out")
	}
}

var isDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func (t TLS) check(r *yamlfile.Reader) {
	if t.Cert.Set != t.Key.Set {
		r.FaultAt(cmp.Or(t.Cert.At, t.Key.At), "a certificate needs its key, and a key its certificate",
			"write both cert: and key:")
	}
	if t.ClientCA.Set && !t.Cert.Set {
		r.FaultAt(t.ClientCA.At, "client certificates are part of TLS, which is not on", "write cert: and key: as well")
	}
}

func (d Dashboard) check(r *yamlfile.Reader) {
	switch {
	case d.Users.Set && !d.Listen.Set:
		r.FaultAt(d.Users.At, "no dashboard is served", "write listen: too, as in listen: 127.0.0.1:8082")
	case d.Listen.Set && dashboard.CheckListen(d.Listen.Value, d.HasLogin()) != nil:
		r.FaultAt(d.Listen.At, "any client that can reach "+d.Listen.Value+" could use the dashboard",
			"write users: FILE or oidc: too, or an address of this machine only: 127.0.0.1:8082")
	}
	d.checkOIDC(r)
	switch {
	case d.SecondPerson.Set && !d.HasLogin():
		r.FaultAt(d.SecondPerson.At, "without a login, one person could be two", "write users: FILE or oidc: too")
	case d.SecondPerson.Set != d.Proposals.Set:
		r.FaultAt(cmp.Or(d.SecondPerson.At, d.Proposals.At), "decisions that need a second person are kept in a file",
			"write both second_person: [purge, reopen] and proposals: FILE")
	}
}

// warnings are about what the users send.
func (d Dashboard) warnings(t TLS) []yamlfile.Fault {
	if !d.Listen.Set || t.Cert.Set || dashboard.CheckListen(d.Listen.Value, false) == nil {
		return nil
	}
	return []yamlfile.Fault{{
		At: d.Listen.At, Message: "the dashboard is served without TLS: the tokens of its users can be read on the network",
		Instead: "write tls: {cert: FILE, key: FILE}, or an address of this machine behind a server that has TLS",
	}}
}

// checkRoute looks at a route with its defaults filled in. An empty pattern is that of the defaults themselves.
func (c *Config) checkRoute(r *yamlfile.Reader, t Route, pattern string) {
	t.checkRetention(r)
	t.checkTimes(r)
	t.checkRerun(r)
	t.checkComplete(r)
	t.checkInbox(r, pattern)
	t.checkVerify(r)
	c.checkMode(r, t)
	if pattern != "" {
		t.checkMethod(r)
	}
	switch {
	case !t.Reconcile.Set:
	case !c.ReconcileSecret.isSet():
		r.FaultAt(t.Reconcile.At, "the service could not tell who asks", "write reconcile_secret: {env: NAME} at the top of the file")
	case t.Abandoned.Set:
		r.FaultAt(t.Abandoned.At, "reconcile says what happens to an abandoned key", "leave abandoned or reconcile out")
	case t.completesUpstream():
		r.FaultAt(t.Reconcile.At, "if the upstream completes the keys, the record says what became of an attempt",
			"leave reconcile or complete: upstream out")
	}
	if t.Required.Value && t.Key.Value.BodyHash != nil {
		r.FaultAt(t.Required.At, "a key made of the body is never missing", "leave required out")
	}
	if t.KeyStatus.Value && t.isGuarded() && (t.Key.Value.BodyHash != nil || t.Key.Value.Natural != nil) {
		r.FaultAt(t.KeyStatus.At, "the keys of "+cmp.Or(pattern, "the defaults")+" are made from its requests, so that no client can "+
			"ask for one", "leave key_status out, or write key_status: false for this route")
	}
	if t.Key.Value.BodyHash != nil && !c.Secret.isSet() {
		r.FaultAt(t.Key.At, "keys made of the body need a secret", "write secret: {env: NAME} at the top of the file")
	}
	if n := t.Key.Value.Natural; n != nil && pattern != "" {
		n.check(r, pattern)
	}
	t.checkTags(r, pattern)
	if _, host, _ := splitPattern(pattern); t.AnyHost.Value && host != "" {
		r.FaultAt(t.AnyHost.At, "the pattern "+pattern+" is for one host, and another route may mean something else by the same "+
			"path at another one", "write the pattern without the host, or any_host: false here")
	}
	for _, field := range t.Echo.Value {
		if o := t.options(secrets{}).HTTP.WithDefaults(); t.isGuarded() && o.Fingerprint.Compares(field) {
			r.FaultAt(t.Echo.At, fmt.Sprintf("a retry with another %s would be a mismatch", field),
				fmt.Sprintf("write fingerprint: {exclude: [%s]} too", field))
		}
	}
}

func (t Route) checkRetention(r *yamlfile.Reader) {
	t.Retention.check(r, "retention", t.replay())
	t.FailureRetention.check(r, "failure_retention", t.FailureRetention.Replay.Value)
	if free := t.options(secrets{}).Policy.Retention.WithDefaults().Key; t.MaxKeyAge.Value > free {
		r.FaultAt(t.MaxKeyAge.At, fmt.Sprintf("keys are free after %v: a retry with one that is older, but not older than %v, "+
			"would run again", free, t.MaxKeyAge.Value), "make max_key_age at most as long as retention.key")
	}
}

// check looks at windows that do not nest. name is what the file calls them.
func (k Retention) check(r *yamlfile.Reader, name string, replay time.Duration) {
	if k.Key.Set && k.Key.Value < replay {
		r.FaultAt(k.Replay.At, fmt.Sprintf("answers cannot be replayed for %v when their keys are free after %v",
			replay, k.Key.Value),
			fmt.Sprintf("make %s.key at least as long as %s.replay", name, name))
	}
	if k.Audit.Set && k.Audit.Value < replay {
		r.FaultAt(k.Audit.At, fmt.Sprintf("records cannot go after %v when answers are replayed for %v",
			k.Audit.Value, replay),
			fmt.Sprintf("make %s.audit at least as long as %s.replay", name, name))
	}
}

const (
	shortestLease = time.Second
	longestLease  = 24 * time.Hour
)

func (t Route) checkTimes(r *yamlfile.Reader) {
	if t.Lease.Set && (t.Lease.Value < shortestLease || t.Lease.Value > longestLease) {
		r.FaultAt(t.Lease.At,
			fmt.Sprintf("a lease of %v is not useful: heartbeats come every third of it, and a crash blocks the key as long",
				t.Lease.Value), "write 1s to 24h; 30s suits most. How long the work may take is timeout:")
	}
}

// checkRerun finds routes whose requests would be sent again after a crash, although the upstream has nothing by
// which it could tell that it has seen them.
func (t Route) checkRerun(r *yamlfile.Reader) {
	if t.isGuarded() && !t.Reconcile.Set && t.Abandoned.Value.Resumes() && !t.UpstreamKey.Set && !t.completesUpstream() {
		r.FaultAt(t.Abandoned.At,
			"after a crash the request is sent again, and the upstream could not tell that it has seen it",
			"write upstream_key: HEADER too, for an upstream that recognises repeats by it; or complete: upstream, for one "+
				"that completes the key in its own transaction; or upstream_key: none, if doing it twice does no harm")
	}
}

// checkComplete finds settings that a route whose upstream completes the keys cannot have, and one that only such a
// route can have.
func (t Route) checkComplete(r *yamlfile.Reader) {
	if !t.completesUpstream() {
		if t.Attempts.Value > 1 && t.isGuarded() {
			r.FaultAt(t.Attempts.At, "the proxy sends a request again only if the upstream completes the keys: otherwise it "+
				"could run twice", "write complete: upstream too, or leave attempts out")
		}
		if t.AsyncClaim.Value && t.isGuarded() {
			r.FaultAt(t.AsyncClaim.At, "a crash of the database loses a claim that does not wait for the disk, and the upstream "+
				"could have done the work without it", "write complete: upstream too, or leave async_claim out")
		}
		return
	}
	if t.Stream.Value {
		r.FaultAt(t.Stream.At, "an answer cannot be streamed if the upstream completes the keys: the record decides what the "+
			"client gets, once the upstream has answered", "leave stream or complete: upstream out")
	}
	if t.StoreError.Value == retrysafe.FailOpen {
		r.FaultAt(t.StoreError.At, "while the store fails there is no lease under which the upstream could complete a key",
			"leave store_error: open or complete: upstream out")
	}
	if t.AsyncClaim.Value && (t.Reconcile.Set || t.Abandoned.Set && !t.Abandoned.Value.Resumes()) {
		r.FaultAt(t.AsyncClaim.At, "after a crash of the database the request runs again, and nothing is asked before",
			"leave async_claim out, or reconcile and abandoned: refuse")
	}
}

// Warnings returns what is allowed, and should be known before it is found out in production. FillIn comes before.
func (c *Config) Warnings() []yamlfile.Fault {
	all := c.Dashboard.warnings(c.TLS)
	for _, t := range append([]Route{c.Defaults}, c.overridden()...) {
		for _, w := range t.warnings() {
			if !slices.Contains(all, w) {
				all = append(all, w)
			}
		}
	}
	return all
}

func (t Route) warnings() (all []yamlfile.Fault) {
	if !t.isGuarded() {
		return nil
	}
	if t.Ambiguous.Value == retrysafe.AmbiguousRelease && !t.UpstreamKey.Set && !t.completesUpstream() {
		all = append(all, yamlfile.Fault{
			At: t.Ambiguous.At,
			Message: "ambiguous: release frees the key when the upstream answers 500, 502 or 504, or breaks off: " +
				"the operation may have run, and the retry runs it again",
			Instead: "write ambiguous: store or unknown; or upstream_key: HEADER, for an upstream that recognises repeats by it",
		})
	}
	all = append(append(all, t.leaseWarnings()...), t.verifyWarnings()...)
	if t.AsyncClaim.Value && t.UpstreamKey.Set && t.UpstreamKey.Value != noUpstreamKey {
		all = append(all, yamlfile.Fault{
			At: t.AsyncClaim.At,
			Message: "a crash of the database can forget that a request was sent, and an upstream that needs a key for its own " +
				"calls does more than its transaction undoes",
			Instead: "leave async_claim or upstream_key out",
		})
	}
	switch {
	case !t.Redact.Set:
	case t.completesUpstream():
		all = append(all, yamlfile.Fault{
			At:      t.Redact.At,
			Message: "the upstream stores its answers itself where it completes the keys, and they are not redacted",
			Instead: "let it complete the key with an answer that does not have these values",
		})
	case t.DropBody.Value:
		all = append(all, yamlfile.Fault{
			At: t.Redact.At, Message: "no body is stored, so that there is nothing to redact",
			Instead: "leave redact or drop_body out",
		})
	}
	if t.observes() && t.completesUpstream() {
		all = append(all, yamlfile.Fault{
			At:      cmp.Or(t.Complete.At, t.Mode.At),
			Message: "the upstream gets no Retrysafe-Lease with a request that is only observed, and cannot complete its key",
			Instead: "let the service serve requests without this header as before, or write mode: enforce",
		})
	}
	demands := "a key is required"
	if t.sender() != nil {
		demands = "a signature is required"
	}
	isStrict := t.Required.Value || t.sender() != nil
	if method, _, path := splitPattern(t.Pattern.Value); path != "" && method == "" && isStrict && !t.Methods.Set {
		if open := without(settings.CommonMethods(), t.rules().Methods); len(open) > 0 {
			all = append(all, yamlfile.Fault{
				At: t.Pattern.At,
				Message: fmt.Sprintf("%s, but %s requests pass through unguarded: the profile %s guards %s", demands,
					strings.Join(open, " and "), t.profile().Name, strings.Join(t.rules().Methods, ", ")),
				Instead: fmt.Sprintf("write methods: [%s] to guard all of them, or methods: [%s]",
					strings.Join(settings.CommonMethods(), ", "), strings.Join(t.rules().Methods, ", ")),
			})
		}
	}
	return all
}

// longestBlock is how long a crash of proxy and service should block a key that the service completes, at most.
const longestBlock = 2 * time.Minute

// leaseWarnings are about the lease of a route whose upstream completes the keys.
func (t Route) leaseWarnings() []yamlfile.Fault {
	p := t.options(secrets{}).Policy
	at := cmp.Or(t.Lease.At, t.Timeout.At, t.Complete.At)
	switch {
	case !t.completesUpstream():
		return nil
	case p.Lease > longestBlock:
		return []yamlfile.Fault{{
			At: at,
			Message: fmt.Sprintf("the lease is %v: if proxy and service crash, retries of their requests get 409 for that long",
				p.Lease),
			Instead: "write timeout: 30s, or as long as the service really needs; the lease is three times as long",
		}}
	case p.Lease < p.Timeout:
		return []yamlfile.Fault{{
			At: at,
			Message: fmt.Sprintf("the lease of %v is shorter than the timeout of %v: heartbeats then write to the record that "+
				"the service completes, which fails a serializable or repeatable read transaction", p.Lease, p.Timeout),
			Instead: "leave lease out: it is three times the timeout",
		}}
	}
	return nil
}

// without returns the words of all that are not among others.
func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(w string) bool { return slices.Contains(others, w) })
}

var wildcard = regexp.MustCompile(`\{([^}.$]+)(\.\.\.)?\}`)

// wildcards returns the names of the wildcards of a pattern.
func wildcards(pattern string) (names []string) {
	for _, m := range wildcard.FindAllStringSubmatch(pattern, -1) {
		names = append(names, m[1])
	}
	return names
}

// check finds path values that the pattern does not have.
func (k *Natural) check(r *yamlfile.Reader, pattern string) {
	for _, want := range k.Path.Value {
		if !slices.Contains(wildcards(pattern), want) {
			r.FaultAt(k.Path.At, fmt.Sprintf("the pattern %q has no {%s}", pattern, want), "")
		}
	}
}
