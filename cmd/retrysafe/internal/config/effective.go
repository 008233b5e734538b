package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Effective returns what is in force, as a file that says the same. Of a secret it says where it is found.
func (c *Config) Effective() string {
	w := &writer{}
	w.text("listen", c.Listen.Value)
	w.setting("admin", c.Admin)
	w.flag("metrics", c.Metrics.Value)
	w.open("upstream")
	w.text("url", c.Upstream.URL.Value.String())
	w.flag("preserve_host", c.Upstream.PreserveHost.Value)
	w.flag("trust_forwarded", c.Upstream.TrustForwarded.Value)
	w.duration("dial_timeout", c.Upstream.DialTimeout.Value)
	w.duration("header_timeout", c.Upstream.HeaderTimeout.Value)
	w.duration("idle_timeout", c.Upstream.IdleTimeout.Value)
	w.setting("ca", c.Upstream.CA)
	w.close()
	w.text("store", c.Store.Value)
	w.text("scope", c.Scope.Value)
	if c.Auth.Set {
		w.text("auth", c.Auth.Value.String())
	}
	w.group("jwt", named{"issuer", c.JWT.Issuer}, named{"audience", c.JWT.Audience})
	w.group("tls", named{"cert", c.TLS.Cert}, named{"key", c.TLS.Key}, named{"client_ca", c.TLS.ClientCA})
	w.group("secret", named{"env", c.Secret.Env}, named{"file", c.Secret.File})
	w.setting("public_url", c.PublicURL)
	w.flag("h2c", c.H2C.Value)
	w.text("log", c.Log.Value)
	w.duration("grace", c.Grace.Value)
	w.open("limits")
	w.number("header_bytes", c.Limits.HeaderBytes.Value)
	w.duration("header_timeout", c.Limits.HeaderTimeout.Value)
	w.duration("body_timeout", c.Limits.BodyTimeout.Value)
	w.duration("idle_timeout", c.Limits.IdleTimeout.Value)
	w.duration("write_timeout", c.Limits.WriteTimeout.Value)
	w.number("memory", c.Limits.Memory.Value)
	w.number("concurrent", int64(c.Limits.Concurrent.Value))
	w.number("concurrent_per_caller", int64(c.Limits.ConcurrentPerCaller.Value))
	w.number("keys_per_caller", int64(c.Limits.KeysPerCaller.Value))
	w.close()
	w.open("defaults")
	w.route(c.Defaults)
	w.close()
	if len(c.Routes) > 0 {
		w.open("routes")
		for _, t := range c.overridden() {
			w.open(strconv.Quote(t.Pattern.Value))
			w.route(t)
			w.close()
		}
		w.close()
	}
	return w.b.String()
}

// writer writes YAML whose texts are all quoted.
type writer struct {
	b     strings.Builder
	depth int
}

type named struct {
	name  string
	value Setting[string]
}

func (w *writer) line(name, value string) {
	fmt.Fprintf(&w.b, "%s%s: %s\n", strings.Repeat("  ", w.depth), name, value)
}

func (w *writer) open(name string) {
	fmt.Fprintf(&w.b, "%s%s:\n", strings.Repeat("  ", w.depth), name)
	w.depth++
}

func (w *writer) close() { w.depth-- }

func (w *writer) text(name, value string)         { w.line(name, quote(value)) }
func (w *writer) flag(name string, value bool)    { w.line(name, strconv.FormatBool(value)) }
func (w *writer) number(name string, value int64) { w.line(name, strconv.FormatInt(value, 10)) }
func (w *writer) list(name string, values []string) {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = quote(v)
	}
	w.line(name, "["+strings.Join(quoted, ", ")+"]")
}

// duration leaves out what stands for "no limit".
func (w *writer) duration(name string, d time.Duration) {
	if d > 0 {
		w.line(name, d.String())
	}
}

func (w *writer) setting(name string, s Setting[string]) {
	if s.Set {
		w.text(name, s.Value)
	}
}

// group writes a mapping of what is set; nothing if nothing is.
func (w *writer) group(name string, settings ...named) {
	opened := false
	for _, s := range settings {
		if !s.value.Set {
			continue
		}
		if !opened {
			w.open(name)
			opened = true
		}
		w.text(s.name, s.value.Value)
	}
	if opened {
		w.close()
	}
}

// route writes a route whose defaults are filled in, and what the library does where nothing is said.
func (w *writer) route(t Route) {
	if !t.isGuarded() {
		w.flag("guarded", false)
		return
	}
	rules, policy := t.rules(), t.policy().WithDefaults()
	w.text("profile", rules.Profile)
	w.flag("required", rules.Required)
	w.list("methods", rules.Methods)
	w.key(t.Key)
	w.fingerprint(t.Fingerprint)
	w.flag("scope_route", rules.ScopeRoute)
	w.open("retention")
	w.duration("replay", policy.Retention.Replay)
	w.duration("key", policy.Retention.Key)
	w.duration("audit", policy.Retention.Audit)
	w.close()
	w.duration("lease", policy.Lease)
	w.duration("timeout", policy.Timeout)
	w.text("in_flight", t.InFlight.Value.String())
	w.text("abandoned", or(t.Abandoned, "refuse"))
	w.text("store_error", or(t.StoreError, "closed"))
	w.text("ambiguous", rules.Ambiguous.String())
	w.flag("trust_unavailable", t.TrustUnavailable.Value)
	w.number("max_request", rules.MaxRequestBytes)
	w.number("max_response", rules.MaxResponseBytes)
	w.setting("upstream_key", t.UpstreamKey)
	w.setting("attempt_header", t.AttemptHeader)
	w.flag("stream", t.Stream.Value)
}

func (w *writer) key(k Setting[Key]) {
	switch {
	case k.Value.Natural != nil:
		w.open("key")
		w.open("natural")
		if k.Value.Natural.Path.Set {
			w.list("path", k.Value.Natural.Path.Value)
		}
		if k.Value.Natural.Fields.Set {
			w.list("fields", k.Value.Natural.Fields.Value)
		}
		w.setting("reference", k.Value.Natural.Reference)
		w.close()
		w.close()
	case k.Value.BodyHash != nil:
		w.open("key")
		h := k.Value.BodyHash
		if !h.Fields.Set && !h.Intent.Set {
			w.line("body_hash", "{}")
		} else {
			w.open("body_hash")
			if h.Fields.Set {
				w.list("fields", h.Fields.Value)
			}
			w.setting("intent", h.Intent)
			w.close()
		}
		w.close()
	case k.Value.Header != "":
		w.open("key")
		w.text("header", k.Value.Header)
		w.close()
	default:
		w.text("key", "header")
	}
}

func (w *writer) fingerprint(f Setting[Fingerprint]) {
	switch {
	case f.Value.Kind == "fields":
		w.open("fingerprint")
		if f.Value.Include.Set {
			w.list("include", f.Value.Include.Value)
		} else {
			w.list("exclude", f.Value.Exclude.Value)
		}
		w.close()
	case f.Set:
		w.text("fingerprint", f.Value.Kind)
	}
}

// String is how a file has it.
func (f InFlight) String() string {
	if f.Kind == "wait" {
		return "wait:" + f.Wait.String()
	}
	return f.Kind
}

func or(s Setting[string], fallback string) string {
	if s.Set {
		return s.Value
	}
	return fallback
}

// quote writes text so that YAML reads the same. Plain words stay plain.
func quote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	if s != "" && s[0] != '-' && strings.Trim(s, plain) == "" && !isReserved(s) {
		return s
	}
	if !strings.ContainsAny(s, "\n\r\t") {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return strconv.Quote(s)
}

// isReserved reports whether YAML takes a word for something else than text.
func isReserved(s string) bool {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return true
	}
	return false
}
