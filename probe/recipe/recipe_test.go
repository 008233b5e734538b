package recipe

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/probe"
)

const least = "request: {path: /payments, body: '{\"amount\": {{amount}}}'}\nidentity: {pointer: /id}\n"

const full = `
target: https://api.example.test/v1
i_own_this: true
profile: stripe
key_header: X-Key
key_required: true
request:
  method: PUT
  path: /payments?x={{uuid}}
  headers:
    Content-Type: application/json
    X-Team: [one, "{{seq}}"]
  body: |
    {"amount": {{amount}}, "order": "{{uuid}}"}
identity: {header: Location}
count:
  sql: {url: "${DB}", query: select count(*) from payments}
credentials:
  a: {Authorization: "Bearer ${TOKEN_A}"}
  b: {Authorization: "Bearer ${TOKEN_B}", X-Tenant: b}
  revoked: {Authorization: Bearer old}
  a_again: {Authorization: Bearer later}
variants:
  slow: {path: /payments/slow}
  failing: {body: '{"amount": {{amount}}, "card": "declined"}'}
  invalid: {body: '{"amount": '}
  read: {path: /payments, headers: {content-type: text/plain}}
  put: {path: "/payments/{{uuid}}"}
  delete: {path: "/payments/{{uuid}}"}
  rate_limit: {}
hooks:
  restart: [docker, restart, api]
  stop_store: [docker, stop, db]
  start_store: [docker, start, db]
  revoke: [./keys, revoke, a]
  restore: [./keys, restore, a]
  timeout: 5s
retention: 1d
lease: 30s
body_timeout: 10s
other_host: b.example.test:8080
policy_url: https://docs.example.test/retries
limits: {requests: 100, rate: 2.5, timeout: 3s, wait: 1m, burst: 10}
`

func TestAFullRecipe(t *testing.T) {
	f := mustParse(t, full)
	r := f.Recipe
	want(t, "target", r.Target.String(), "https://api.example.test/v1")
	want(t, "own", f.IOwnThis, true)
	want(t, "profile, key", fmt.Sprint(r.Profile, " ", r.KeyHeader, " ", r.KeyRequired), "stripe X-Key true")
	want(t, "request", r.Request.Method+" "+r.Request.Path, "PUT /payments?x={{uuid}}")
	want(t, "headers", lines(r.Request.Header), "Content-Type: application/json\nX-Team: one\nX-Team: {{seq}}")
	want(t, "body", r.Request.Body, "{\"amount\": {{amount}}, \"order\": \"{{uuid}}\"}\n")
	want(t, "identity", r.Identity, probe.Identity{Header: "Location"})
	want(t, "a", lines(r.A), "Authorization: Bearer t-a")
	want(t, "b", lines(r.B), "Authorization: Bearer t-b\nX-Tenant: b")
	want(t, "revoked", lines(r.Revoked), "Authorization: Bearer old")
	want(t, "query", *f.count.sql, sqlSettings{"postgres://reader:s3cret@db/shop", "select count(*) from payments"})
	want(t, "commands", fmt.Sprint(f.Commands()),
		"[[docker restart api] [docker stop db] [docker start db] [./keys revoke a] [./keys restore a]]")
	want(t, "hooks' timeout", f.hooks.timeout, 5*time.Second)
	want(t, "retention, policy", fmt.Sprint(r.Retention, r.PolicyURL), "24h0m0shttps://docs.example.test/retries")
	want(t, "lease", r.Lease, 30*time.Second)
	want(t, "body timeout, other host, a again", fmt.Sprint(r.BodyTimeout, r.OtherHost, lines(r.AAgain)),
		"10sb.example.test:8080Authorization: Bearer later")
	want(t, "limits", r.Limits, probe.Limits{
		Requests: 100, Rate: 2.5, Timeout: 3 * time.Second, Wait: time.Minute,
		Burst: 10,
	})
}

// A variant has the request's headers, and of the rest what it does not say itself.
func TestWhatVariantsInherit(t *testing.T) {
	v := mustParse(t, full).Recipe.Variants
	want(t, "slow", v.Slow.Method+" "+v.Slow.Path, "PUT /payments/slow")
	wantText(t, "slow's body", v.Slow.Body, "{{uuid}}")
	wantText(t, "slow's headers", lines(v.Slow.Header), "application/json", "X-Team: one")
	want(t, "failing", v.Failing.Method+" "+v.Failing.Path, "PUT /payments?x={{uuid}}")
	wantText(t, "failing's body", v.Failing.Body, "declined")
	want(t, "read", v.Read.Method+" "+v.Read.Path+v.Read.Body, "GET /payments")
	want(t, "read's headers", lines(v.Read.Header), "X-Team: one\nX-Team: {{seq}}\ncontent-type: text/plain")
	wantText(t, "put", v.Put.Method+v.Put.Body, "PUT", "{{uuid}}")
	want(t, "delete", v.Delete.Method+v.Delete.Body, "DELETE")
	want(t, "rate limit", v.RateLimit.Path, "/payments?x={{uuid}}")
	if v.Other != nil {
		t.Error("a variant that is not in the file is there")
	}
}

// Seen to fail with one of the variants taken out of the table.
func TestEveryVariantOfTheProbeCanBeWritten(t *testing.T) {
	var all probe.Variants
	for _, v := range variants() {
		v.set(&all, &probe.Template{})
	}
	fields := reflect.ValueOf(all)
	for i := range fields.NumField() {
		if fields.Field(i).IsNil() {
			t.Errorf("no variant of a recipe sets %s", fields.Type().Field(i).Name)
		}
	}
	want(t, "variants", len(variants()), fields.NumField())
}

func TestTheLeastRecipe(t *testing.T) {
	f := mustParse(t, least)
	want(t, "method", f.Recipe.Request.Method, "POST")
	if f.Recipe.Target != nil {
		t.Errorf("there is a target: %v", f.Recipe.Target)
	}
}

// Each is refused at its place, with what to write instead; line 0 is the file as a whole.
func TestWhatIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, source string
		line, column int
		says         string // of message and way out
	}{
		{"an empty file", "", 0, 0, "request is missing"},
		{"no identity", "request: {path: /a}\n", 0, 0, "identity: {pointer: /id}"},
		{"an unknown field", "targit: x\n" + least, 1, 1, `did you mean "target"?`},
		{
			"an unknown field of a request", "request:\n  path: /a\n  header: {A: b}\nidentity: {pointer: /id}\n", 3, 3,
			`did you mean "headers"?`,
		},
		{"an unknown variant", least + "variants: {slwo: {path: /x}}\n", 3, 12, `did you mean "slow"?`},
		{"a list at the top", "- a\n", 1, 1, "must be a mapping"},
		{"a target without scheme", "target: localhost:80\n" + least, 1, 9, "http://127.0.0.1:8080"},
		{"a target with a password", "target: http://u:p@h\n" + least, 1, 9, "credentials.a"},
		{"a target with a query", "target: http://h/?a=b\n" + least, 1, 9, "only a scheme"},
		{"a profile", "profile: strype\n" + least, 1, 10, "did you mean stripe?"},
		{"a profile that resembles none", "profile: mine\n" + least, 1, 10, "ietf, ietf-strict"},
		{"a key header", "key_header: a b\n" + least, 1, 13, "Idempotency-Key"},
		{"no path", "request: {method: POST}\nidentity: {pointer: /id}\n", 1, 11, "write path:"},
		{"a relative path", "request: {path: payments}\nidentity: {pointer: /id}\n", 1, 17, "begins with a slash"},
		{"a path with a space", "request: {path: /a b}\nidentity: {pointer: /id}\n", 1, 17, "%20"},
		{"a method in small letters", "request: {path: /a, method: post}\nidentity: {pointer: /id}\n", 1, 29, "POST"},
		{
			"an unknown generator", "request: {path: /a, body: '{{amuont}}'}\nidentity: {pointer: /id}\n", 1, 27,
			"did you mean {{amount}}?",
		},
		{
			"an unknown generator in a header",
			"request: {path: /a, headers: {X: '{{id}}'}}\nidentity: {pointer: /id}\n", 1, 34,
			"{{uuid}}, {{seq}}, {{amount}}, {{time}}",
		},
		{
			"a body that is a mapping", "request:\n  path: /a\n  body:\n    amount: 1\nidentity: {pointer: /id}\n", 4, 5,
			"body: |",
		},
		{
			"JSON that is none",
			"request: {path: /a, headers: {Content-Type: application/json}, body: '{\"a\": {{uuid}}}'}\nidentity: " +
				"{pointer: /id}\n", 1, 70, "stand in quotes",
		},
		{
			"a variant's JSON that is none",
			"request: {path: /a, headers: {Content-Type: application/json}}\nidentity: {pointer: /id}\nvariants: " +
				"{slow: {body: '{,}'}}\n", 3, 25, "variants.slow.body is not JSON",
		},
		{"a header's name", "request: {path: /a, headers: {'a b': c}}\nidentity: {pointer: /id}\n", 1, 31, "Idempotency-Key"},
		{
			"a header that frames", "request: {path: /a, headers: {Content-Length: 3}}\nidentity: {pointer: /id}\n", 1,
			31, "leave the line out",
		},
		{"the host", "request: {path: /a, headers: {host: x}}\nidentity: {pointer: /id}\n", 1, 31, "from the target"},
		{
			"the key", "request: {path: /a, headers: {idempotency-key: x}}\nidentity: {pointer: /id}\n", 1, 11,
			"leave the line out",
		},
		{
			"the key of a profile",
			"profile: paypal\nrequest: {path: /a, headers: {PayPal-Request-Id: x}}\nidentity: {pointer: /id}\n", 2,
			11, "PayPal-Request-Id",
		},
		{
			"a header with a line break", "request: {path: /a, headers: {X: \"a\\nb\"}}\nidentity: {pointer: /id}\n", 1,
			34, "in one line",
		},
		{"a pointer", "request: {path: /a}\nidentity: {pointer: data.id}\n", 2, 21, "/data/id"},
		{
			"two identities", "request: {path: /a}\nidentity: {pointer: /id, header: Location}\n", 2, 12,
			"one of pointer and header",
		},
		{"two counts", least + "count: {get: {path: /n}, webhook: {port: 1}}\n", 3, 9, "one of get, sql and webhook"},
		{"a count without path", least + "count: {get: {pointer: /n}}\n", 3, 15, "count.get.path"},
		{"a database that is not known", least + "count: {sql: {url: 'mysql://h/d', query: select 1}}\n", 3, 20, "SQLite"},
		{"a database without query", least + "count: {sql: {url: keys.db}}\n", 3, 15, "select count(*)"},
		{"a port", least + "count: {webhook: {port: 0}}\n", 3, 25, "65535"},
		{"a webhook without port", least + "count: {webhook: {delivery_id: /id}}\n", 3, 19, "9099"},
		{
			"a variable that is not there", least + "credentials: {a: {Authorization: 'Bearer ${NOBODY}'}}\n", 3, 34,
			"export NOBODY=",
		},
		{
			"a variable of two lines", least + "credentials: {a: {Authorization: 'Bearer ${TWO_LINES}'}}\n", 3, 34,
			"in one line",
		},
		{"a credential that is no mapping", least + "credentials: {a: Bearer s3cret}\n", 3, 18, "must be a mapping"},
		{
			"one caller twice", least + "credentials: {a: {X-API-Key: s3cret}, b: {X-API-Key: s3cret}}\n", 3, 15,
			"of another caller",
		},
		{"a variant without a path of its own", least + "variants: {other: {method: POST}}\n", 3, 20, "path of its own"},
		{"a command for a shell", least + "hooks: {restart: docker restart api}\n", 3, 18, "[docker, restart, api]"},
		{"a credential that stays revoked", least + "hooks: {revoke: [./keys, revoke, a]}\n", 3, 9, "restore"},
		{"a host that is none", least + "other_host: http://b.example\n", 3, 13, "tenant-b"},
		{"a store that stays down", least + "hooks: {stop_store: [docker, stop, db]}\n", 3, 9, "start_store"},
		{"a retention", least + "retention: 24\n", 3, 12, "24h"},
		{"a policy", least + "policy_url: /retries\n", 3, 13, "https://"},
		{"a rate", least + "limits: {rate: fast}\n", 3, 16, "requests per second"},
		{"a burst", least + "limits: {burst: 1}\n", 3, 17, "from 2 to"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantRefused(t, c.source, yamlfile.Position{Line: c.line, Column: c.column}, c.says)
		})
	}
}

// wantRefused checks that a recipe has one fault, where it is, what is said of it, and that no credential is shown
// with it.
func wantRefused(t *testing.T, source string, at yamlfile.Position, says string) {
	t.Helper()
	_, err := Parse("payments.yaml", []byte(source), variablesOf)
	var faults *yamlfile.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("it is not refused: %v", err)
	}
	f := faults.All[0]
	want(t, "place", f.At, at)
	want(t, "faults", len(faults.All), 1)
	wantText(t, "text", f.Message+" "+f.Instead, says)
	if at.Line > 0 {
		wantText(t, "error", err.Error(), fmt.Sprintf("payments.yaml:%d:%d: ", at.Line, at.Column))
	}
	if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "Bearer") {
		t.Errorf("it shows a credential:\n%v", err)
	}
}

func TestAllFaultsAreShownInOrder(t *testing.T) {
	_, err := Parse("payments.yaml", []byte("limits: {burst: 1}\nrequest: {path: a}\nretention: x\n"), variablesOf)
	var places []yamlfile.Position
	var faults *yamlfile.Faults
	if errors.As(err, &faults) {
		for _, f := range faults.All {
			places = append(places, f.At)
		}
	}
	want(t, "places", fmt.Sprint(places), "[{1 17} {2 17} {3 12}]")
}

// A password that looks like a generator is none.
func TestVariablesAreNotTemplates(t *testing.T) {
	f := mustParse(t, least+"credentials: {a: {X-API-Key: '${PLACE}'}}\n")
	want(t, "credential", lines(f.Recipe.A), "X-API-Key: {{amuont}}")
}

// Whatever the file: no panic, faults are said, and what is accepted can be sent.
func FuzzRecipe(f *testing.F) {
	for _, seed := range []string{
		full, least, fullGRPC, leastGRPC, routesOf, session + "request: {path: '/{{session}}', body: '{}'}\n", "grpc: null\ntarget: grpc://\n", "request: &a {path: *a}\n? [x]\n: y\n",
		"credentials: {a: {b: [c, {}]}}\n", "count: {get: null}\nvariants: {read: {}}\n",
		"request: {path: \"/\\x00\", headers: {A: \"${\"}}\n", "hooks: {restart: [[]]}\n",
		"identity: []\nlimits: {rate: .nan}\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		file, err := Parse("payments.yaml", []byte(source), variablesOf)
		if err != nil {
			var faults *yamlfile.Faults
			if !errors.As(err, &faults) || len(faults.All) == 0 || err.Error() == "" {
				t.Fatalf("an error without faults: %v", err)
			}
			return
		}
		r := file.Recipe
		if file.grpc != nil {
			if c := file.grpc.plain; !fullMethod.MatchString(c.method) || r.Identity.Pointer == "" ||
				c.request != "" && !isJSON(c.request) {
				t.Fatalf("a recipe that cannot be played: %+v", file.grpc)
			}
			return
		}
		for _, route := range file.Routes() {
			if err := route.Recipe.Request.Check(); err != nil {
				t.Fatal(err)
			}
		}
		for _, h := range append(append(r.A, r.B...), r.Request.Header...) {
			if strings.ContainsAny(h.Name+h.Value, "\r\n\x00") || h.Name == "" {
				t.Fatalf("a header line that cannot be sent: %q: %q", h.Name, h.Value)
			}
		}
		if r.Request.Path == "" || r.Identity == (probe.Identity{}) || strings.ContainsAny(r.Request.Method, " \r\n") {
			t.Fatalf("a recipe that cannot be played: %+v", r)
		}
	})
}
