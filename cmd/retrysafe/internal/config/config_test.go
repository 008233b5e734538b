package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

const full = `
listen: 127.0.0.1:9000
admin: 127.0.0.1:9001
metrics: true
upstream:
  url: h2c://localhost:3000/base
  preserve_host: true
  trust_forwarded: true
  dial_timeout: 1s
  header_timeout: 20s
  idle_timeout: 3s
store: /var/lib/retrysafe/keys.db
scope: jwt:https://login.example.com/jwks.json
jwt: {issuer: "https://login.example.com", audience: payments}
tls: {cert: a.pem, key: a.key, client_ca: ca.pem}
secret: {env: SECRET}
public_url: https://api.example.com/
h2c: true
log: json
grace: 1m
limits: {header_bytes: 32KiB, header_timeout: 5s, body_timeout: 20s, idle_timeout: 1m, concurrent: 500}
defaults:
  profile: stripe
  retention: {replay: 48h}
  lease: 10s
routes:
  POST /payments:
    required: true
    retention: {replay: 72h, key: 30d, audit: 90d}
    timeout: 2m
    in_flight: wait:10s
    ambiguous: unknown
    fingerprint: {exclude: [/sent_at]}
    upstream_key: Idempotency-Key
    attempt_header: X-Attempt
  POST /payments/{id}/refunds:
    key: {natural: {path: [id], fields: [/amount], reference: X-Repeat}}
    abandoned: rerun
    store_error: open
  PUT /things/{id}:
    methods: [PUT]
    key: {body_hash: {fields: [/a], intent: X-Intent}}
    max_request: 10KiB
    max_response: 2MiB
  POST /reports: {in_flight: status, scope_route: true, fingerprint: json, profile: ietf}
  POST /hooks: {key: {header: X-Delivery}, stream: true}
  /static/: {guarded: false}
  /plain:
`

func mustParse(t *testing.T, source string) *Config {
	t.Helper()
	c, err := Parse("proxy.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestAFullFile(t *testing.T) {
	c := mustParse(t, full)
	if err := c.FillIn(); err != nil {
		t.Fatal(err)
	}
	o, err := c.Proxy([]byte("a secret of some length"))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "upstream", o.Upstream.URL.String(), "h2c://localhost:3000/base")
	want(t, "idle timeout", o.Upstream.IdleTimeout, 3*time.Second)
	want(t, "trust", o.Upstream.TrustForwarded && o.Upstream.PreserveHost, true)
	want(t, "public URL", o.PublicURL, "https://api.example.com")
	want(t, "concurrent", o.Concurrent, 500)
	want(t, "metrics", c.Metrics.Value, true)
	want(t, "header bytes", c.Limits.HeaderBytes.Value, 32<<10)
	want(t, "default profile", o.Default.HTTP.Profile.Name, "stripe")
	want(t, "default lease", o.Default.Policy.Lease, 10*time.Second)
	want(t, "body timeout", o.Default.BodyTimeout, 20*time.Second)

	pay, refund, thing, report, hook, static, plain := o.Routes[0], o.Routes[1], o.Routes[2], o.Routes[3], o.Routes[4], o.Routes[5], o.Routes[6]
	want(t, "pattern", pay.Pattern, "POST /payments")
	want(t, "required", pay.HTTP.Required, true)
	want(t, "retention", pay.Policy.Retention, retrysafe.Retention{Replay: 72 * time.Hour, Key: 720 * time.Hour, Audit: 2160 * time.Hour})
	want(t, "inherited lease", pay.Policy.Lease, 10*time.Second)
	want(t, "timeout", pay.Policy.Timeout, 2*time.Minute)
	want(t, "in flight", pay.Policy.OnInFlight, retrysafe.Wait(10*time.Second))
	want(t, "ambiguous", pay.HTTP.Ambiguous, httpsafe.AmbiguousUnknown)
	want(t, "fingerprint", pay.HTTP.Fingerprint.String(), "JSON without /sent_at")
	want(t, "upstream key", pay.UpstreamKey+pay.AttemptHeader, "Idempotency-KeyX-Attempt")
	want(t, "inherited profile", pay.HTTP.Profile.Name, "stripe")
	want(t, "inherited retention", refund.Policy.Retention.Replay, 48*time.Hour)
	want(t, "store error", refund.Policy.OnStoreError, retrysafe.FailOpen)
	want(t, "natural key", fmt.Sprint(refund.HTTP.KeySource), fmt.Sprint(httpsafe.NaturalKey{PathValues: []string{"id"}, Fields: []string{"/amount"}, Reference: "X-Repeat"}))
	want(t, "body hash", thing.HTTP.KeySource.(httpsafe.BodyHash).Intent, "X-Intent")
	want(t, "methods", strings.Join(thing.HTTP.Methods, ","), "PUT")
	want(t, "limits", fmt.Sprint(thing.HTTP.MaxRequestBody, thing.Policy.MaxResult), fmt.Sprint(10<<10, 2<<20))
	want(t, "status", report.HTTP.InFlightStatus && report.HTTP.RespondAsync && report.HTTP.ScopeRoute, true)
	want(t, "own profile", report.HTTP.Profile.Name, "ietf")
	want(t, "header", fmt.Sprint(hook.HTTP.KeySource), fmt.Sprint(httpsafe.HeaderKey{Header: "X-Delivery"}))
	want(t, "stream", hook.Stream, true)
	want(t, "unguarded", static.Unguarded, true)
	want(t, "a pattern alone", plain.Pattern+fmt.Sprint(plain.Unguarded), "/plainfalse")
}

// A profile brings its own retention; a route's goes before it.
func TestTheRetentionOfAProfile(t *testing.T) {
	for source, replay := range map[string]time.Duration{
		"{profile: stripe-v2}":                          30 * 24 * time.Hour,
		"{profile: stripe-v2, retention: {replay: 1h}}": time.Hour,
		"{profile: stripe-v2, retention: {key: 2h}}":    2 * time.Hour,
		"{profile: ietf}":                               24 * time.Hour,
		"{}":                                            24 * time.Hour,
	} {
		c := mustParse(t, "upstream: http://x\ndefaults: "+source+"\n")
		o, err := c.Proxy(nil)
		if err != nil {
			t.Fatal(err)
		}
		want(t, source, o.Default.Policy.Retention.Replay, replay)
	}
}

// What --check prints says the same as the file it was made from.
func TestTheEffectiveConfigurationIsOne(t *testing.T) {
	for _, source := range []string{full, "upstream: http://localhost:3000\n"} {
		c := mustParse(t, source)
		if err := c.FillIn(); err != nil {
			t.Fatal(err)
		}
		first := c.Effective()
		again, err := Parse("effective.yaml", []byte(first))
		if err != nil {
			t.Fatalf("%v\n%s", err, first)
		}
		if err := again.FillIn(); err != nil {
			t.Fatal(err)
		}
		if second := again.Effective(); second != first {
			t.Errorf("got\n%s\nwant\n%s", second, first)
		}
	}
}

// Each is refused at its place, with what to write instead.
func TestWhatIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, source string
		line, column int
		says         string // of message and way out
	}{
		{"an unknown field", "listn: :8080\n", 1, 1, `did you mean "listen"?`},
		{"an unknown field that resembles none", "colour: red\n", 1, 1, "known: admin, defaults"},
		{"an unknown field of a route", "routes:\n  /a:\n    requierd: true\n", 3, 5, `did you mean "required"?`},
		{"a dash for an underscore", "defaults:\n  in-flight: reject\n", 2, 3, `did you mean "in_flight"?`},
		{"a field twice", "log: json\nlog: text\n", 2, 1, "already defined"},
		{"no value", "listen:\n", 1, 1, "leave the line out"},
		{"a list for a value", "listen: [a]\n", 1, 9, "a single value"},
		{"a value for a mapping", "defaults: yes\n", 1, 11, "must be a mapping"},
		{"a list at the top", "- a\n", 1, 1, "must be a mapping"},
		{"bad YAML", "a: b: c\n", 1, 4, "mapping value is not allowed"},
		{"tabs", "defaults:\n\tlease: 3s\n", 2, 1, "tab"},
		{"two documents", "log: json\n---\nlog: text\n", 3, 1, "second document"},
		{"anchors", "defaults: &d\n  lease: 3s\n", 1, 11, "must be a mapping"},
		{"an alias", "log: *x\n", 1, 6, "anchors"},
		{"a duration in words", "grace: 10 seconds\n", 1, 8, "500ms, 30s, 15m, 24h or 30d"},
		{"a duration without unit", "grace: 10\n", 1, 8, "a number and a unit"},
		{"no duration", "grace: 0s\n", 1, 8, "leave the line out"},
		{"a negative duration", "grace: -1s\n", 1, 8, "not more than zero"},
		{"a duration without end", "defaults: {retention: {replay: 99999999d}}\n", 1, 32, "hundred years"},
		{"a size", "defaults: {max_request: 1MB}\n", 1, 25, "1MiB"},
		{"a size too large", "defaults: {max_request: 9GiB}\n", 1, 25, "2GiB is too much"},
		{"no boolean", "h2c: maybe\n", 1, 6, "true or false"},
		{"a count", "limits: {concurrent: 0}\n", 1, 22, "from 1 to"},
		{"an address", "listen: localhost\n", 1, 9, "host:port"},
		{"an upstream", "upstream: localhost:3000\n", 1, 11, "http://host:port"},
		{"an upstream with a query", "upstream: http://x/?a=b\n", 1, 11, "nothing else"},
		{"a public URL", "public_url: api\n", 1, 13, "https://api.example.com"},
		{"a profile", "defaults: {profile: strype}\n", 1, 21, "stripe"},
		{"a method in small letters", "defaults: {methods: [post]}\n", 1, 22, "POST"},
		{"a safe method", "defaults: {methods: [GET]}\n", 1, 22, "leave it out"},
		{"in flight", "defaults: {in_flight: wait}\n", 1, 23, "wait:10s"},
		{"in flight, without unit", "defaults: {in_flight: wait:10}\n", 1, 23, "a number and a unit"},
		{"abandoned", "defaults: {abandoned: retry}\n", 1, 23, "refuse, rerun"},
		{"a header's name", "defaults: {upstream_key: 'a b'}\n", 1, 26, "Idempotency-Key"},
		{"a pointer", "defaults: {fingerprint: {include: [a.b]}}\n", 1, 36, "/a/b"},
		{"a fingerprint of two kinds", "defaults:\n  fingerprint:\n    include: [/a]\n    exclude: [/b]\n", 3, 5, "one of include"},
		{"a fingerprint", "defaults: {fingerprint: md5}\n", 1, 25, "raw, json, form"},
		{"a key of two kinds", "secret: {env: A}\ndefaults:\n  key:\n    header: A\n    body_hash: {}\n", 4, 5, "one of header"},
		{"a key of nothing", "defaults: {key: {natural: {reference: X}}}\n", 1, 28, "path: [id]"},
		{"a key of a path value that is not there", "routes:\n  POST /a/{id}:\n    key: {natural: {path: [name]}}\n", 3, 27, "no {name}"},
		{"a body hash without a secret", "defaults: {key: {body_hash: {}}}\n", 1, 18, "secret: {env: NAME}"},
		{"a body hash that is required", "secret: {env: A}\ndefaults: {key: {body_hash: {}}, required: true}\n", 2, 44, "never missing"},
		{"a secret with two places", "secret: {env: A, file: b}\n", 1, 10, "one of env and file"},
		{"a certificate alone", "tls: {cert: a}\n", 1, 13, "key:"},
		{"client certificates without TLS", "tls: {client_ca: a}\n", 1, 18, "cert:"},
		{"replays that outlive their key", "routes:\n  /a:\n    retention: {replay: 48h, key: 24h}\n", 3, 25, "at least as long"},
		{"replays that outlive their record", "defaults: {retention: {replay: 48h, audit: 24h}}\n", 1, 44, "at least as long"},
		{"a short lease", "defaults: {lease: 10ms}\n", 1, 19, "30s suits most"},
		{"a long lease", "defaults: {lease: 3d}\n", 1, 19, "timeout:"},
		{"a pattern that is none", "routes:\n  POST payments: {}\n", 2, 3, "missing /"},
		{"a pattern with a bad wildcard", "routes:\n  POST /{a: {}\n", 2, 3, "wildcard"},
		{"a pattern twice", "routes:\n  POST /a: {}\n  POST /a: {}\n", 3, 3, "already defined"},
		{"a pattern twice, spelt otherwise", "routes:\n  POST /a/{x}: {}\n  POST /a/{y}: {}\n", 3, 3, "line 2"},
		{"patterns that contradict each other", "routes:\n  POST /a/{x}: {}\n  /b: {}\n  /a/b: {}\n", 4, 3, "line 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("proxy.yaml", []byte(c.source))
			var faults *Faults
			if !errors.As(err, &faults) {
				t.Fatalf("it is not refused: %v", err)
			}
			f := faults.All[0]
			want(t, "place", f.At, Position{c.line, c.column})
			if said := f.Message + " " + f.Instead; !strings.Contains(said, c.says) {
				t.Errorf("it says %q, which lacks %q", said, c.says)
			}
			text := faults.Error()
			line := strings.Split(c.source, "\n")[c.line-1]
			for _, part := range []string{fmt.Sprintf("proxy.yaml:%d:%d: ", c.line, c.column), strings.ReplaceAll(line, "\t", " "), "^"} {
				if !strings.Contains(text, part) {
					t.Errorf("%q lacks %q", text, part)
				}
			}
		})
	}
}

func TestAllFaultsAreShownInOrder(t *testing.T) {
	_, err := Parse("proxy.yaml", []byte("routes:\n  POST a: {}\ngrace: x\nlisten: y\ndefaults: {lease: 1ms}\n"))
	var places []Position
	var faults *Faults
	if errors.As(err, &faults) {
		for _, f := range faults.All {
			places = append(places, f.At)
		}
	}
	want(t, "places", fmt.Sprint(places), "[{2 3} {3 8} {4 9} {5 19}]")
}

func TestAnEmptyFileIsOne(t *testing.T) {
	for _, source := range []string{"", "\n", "# nothing\n", "---\n", "null\n"} {
		mustParse(t, source)
	}
}

func TestTheCaretPointsAtTheFault(t *testing.T) {
	_, err := Parse("proxy.yaml", []byte("log: json\ngrace: soon\n"))
	want(t, "text", err.Error(), `proxy.yaml:2:8: "soon" is no duration
     2 | grace: soon
       |        ^
       write a number and a unit: 500ms, 30s, 15m, 24h or 30d`)
}

// Whatever the file: no panic, faults have their place in it, and what is accepted can be printed and read again.
func FuzzConfig(f *testing.F) {
	f.Add(full)
	f.Add("upstream: http://x\nroutes:\n  POST /a: {key: {natural: {path: [id]}}}\n")
	f.Add("defaults: &a {lease: *a}\n? [x]\n: y\n")
	f.Add("secret: abc\nlimits: {concurrent: 1e3}\n")
	f.Add("routes: {'GET /{$}': null, \"\\x00\": {}}\n")
	f.Fuzz(func(t *testing.T, source string) {
		c, err := Parse("proxy.yaml", []byte(source))
		if err != nil {
			var faults *Faults
			if !errors.As(err, &faults) || len(faults.All) == 0 || err.Error() == "" {
				t.Fatalf("an error without faults: %v", err)
			}
			return
		}
		if c.FillIn() != nil || !c.Upstream.URL.Set {
			return
		}
		first := c.Effective()
		again, err := Parse("effective.yaml", []byte(first))
		if err != nil {
			t.Fatalf("%v\n%s", err, first)
		}
		if err := again.FillIn(); err != nil {
			t.Fatal(err)
		}
		if second := again.Effective(); second != first {
			t.Fatalf("got\n%s\nwant\n%s", second, first)
		}
	})
}
