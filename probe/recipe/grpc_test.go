//go:build unix

package recipe

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/grpcprobe"
)

const leastGRPC = "grpc: {method: shop.v1.Payments/Create, request: '{\"amount\": {{amount}}}'}\nidentity: {pointer: " +
	"/paymentId}\n"

const fullGRPC = `
target: grpcs://api.example.test:443
i_own_this: true
profile: aip155
grpc:
  method: shop.v1.Payments/Create
  metadata: {X-Team: [one, "{{seq}}"]}
  request: |
    {"amount": {{amount}}, "order": "{{uuid}}"}
  key_field: request_id
identity: {pointer: /paymentId}
credentials:
  a: {authorization: "Bearer ${TOKEN_A}"}
  b: {authorization: "Bearer ${TOKEN_B}"}
variants:
  slow: {method: shop.v1.Payments/CreateSlowly, metadata: {x-team: two}}
  failing: {request: '{"amount": {{amount}}, "card": "declined"}'}
  broken: {}
limits: {requests: 100, rate: 2.5, timeout: 3s, burst: 10}
`

// opened is a recipe for gRPC as it is played.
func opened(t *testing.T, f *File) grpcprobe.Recipe {
	t.Helper()
	r, done, err := f.Open(t.Context(), f.Recipe.Target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { done() })
	return f.grpc.open(r)
}

func TestAFullRecipeForGRPC(t *testing.T) {
	f := mustParse(t, fullGRPC)
	r := opened(t, f)
	want(t, "protocol", f.Protocol().Name, "gRPC")
	want(t, "what it makes", f.Makes(), "shop.v1.Payments/Create")
	want(t, "target, profile", r.Target+" "+r.Profile, "api.example.test:443 aip155")
	want(t, "TLS, own", fmt.Sprint(r.TLS != nil, f.IOwnThis), "true true")
	want(t, "key", r.Key, grpcprobe.Key{Field: "request_id"})
	want(t, "identity", r.Identity, "/paymentId")
	want(t, "metadata", lines(r.Call.Metadata), "x-team: one\nx-team: {{seq}}")
	want(t, "request", r.Call.Request, "{\"amount\": {{amount}}, \"order\": \"{{uuid}}\"}\n")
	want(t, "a, b", lines(r.A)+lines(r.B), "authorization: Bearer t-aauthorization: Bearer t-b")
	want(t, "limits", r.Limits, probe.Limits{Requests: 100, Rate: 2.5, Timeout: 3 * time.Second, Burst: 10})
	want(t, "slow", r.Slow.Method+" "+lines(r.Slow.Metadata)+" "+r.Slow.Request,
		"shop.v1.Payments/CreateSlowly x-team: two "+r.Call.Request)
	want(t, "failing", r.Failing.Method+" "+r.Failing.Request,
		`shop.v1.Payments/Create {"amount": {{amount}}, "card": "declined"}`)
	want(t, "broken", fmt.Sprint(*r.Broken), fmt.Sprint(r.Call))
}

func TestTheLeastRecipeForGRPC(t *testing.T) {
	f := mustParse(t, leastGRPC)
	if f.Recipe.Target != nil {
		t.Errorf("there is a target: %v", f.Recipe.Target)
	}
	f = mustParse(t, "target: grpc://127.0.0.1:50051/\n"+strings.Replace(leastGRPC,
		"request: '{\"amount\": {{amount}}}'", "key_metadata: X-Key", 1))
	r := opened(t, f)
	want(t, "target", f.Recipe.Target.String(), "grpc://127.0.0.1:50051")
	want(t, "no TLS, no variants", r.TLS == nil && r.Slow == nil && r.Failing == nil && r.Broken == nil, true)
	want(t, "key", r.Key, grpcprobe.Key{Metadata: "x-key"})
	want(t, "HTTP", mustParse(t, least).Protocol().Name, "HTTP")
}

// Each is refused at its place, with what to write instead; line 0 is the file as a whole.
func TestWhatIsRefusedForGRPC(t *testing.T) {
	call := func(fields string) string {
		return "grpc: {method: a.B/C, " + fields + "}\nidentity: {pointer: /id}\n"
	}
	for _, c := range []struct {
		name, source string
		line, column int
		says         string // of message and way out
	}{
		{"no call", "target: grpc://h:1\nidentity: {pointer: /id}\n", 0, 0, "write grpc: {method:"},
		{"no identity", "grpc: {method: a.B/C}\n", 0, 0, "identity: {pointer: /paymentId}"},
		{"no method", "grpc: {request: '{}'}\nidentity: {pointer: /id}\n", 1, 8, "grpc.method is missing"},
		{"an unknown field", "targit: x\n" + leastGRPC, 1, 1, `did you mean "target"?`},
		{"an unknown field of a call", call("reqest: '{}'"), 1, 23, `did you mean "request"?`},
		{
			"a method without service", "grpc: {method: Create}\nidentity: {pointer: /id}\n", 1, 16,
			"shop.v1.Payments/CreatePayment",
		},
		{"a method of HTTP's", "grpc: {method: POST}\nidentity: {pointer: /id}\n", 1, 16, "package, service and method"},
		{"a path for a method", "grpc: {method: /a.B/C}\nidentity: {pointer: /id}\n", 1, 16, "not the full name"},
		{"a target of HTTP's", "target: http://127.0.0.1:1\n" + leastGRPC, 1, 9, "grpc://127.0.0.1:50051"},
		{"a target without port", "target: grpc://localhost\n" + leastGRPC, 1, 9, "no port"},
		{"a target with a path", "target: grpc://localhost:1/v1\n" + leastGRPC, 1, 9, "only a scheme"},
		{"a target with a password", "target: grpc://u:p@h:1\n" + leastGRPC, 1, 9, "credentials.a"},
		{"a profile of HTTP's", "profile: stripe\n" + leastGRPC, 1, 10, "aip155, ietf, none"},
		{"a request of HTTP's", "target: grpc://h:1\n" + least, 2, 11, "write grpc: {method:"},
		{"both requests", leastGRPC + "request: {path: /a}\n", 3, 11, "leave grpc: out"},
		{"a path", call("path: /a"), 1, 29, "write method"},
		{"headers", call("headers: {A: b}"), 1, 33, "write metadata"},
		{"a body", call("body: '{}'"), 1, 29, "write request"},
		{"the key's header", "key_header: X-Key\n" + leastGRPC, 1, 13, "key_metadata"},
		{"a required key", "key_required: true\n" + leastGRPC, 1, 15, "leave it out"},
		{"hooks", leastGRPC + "hooks: {restart: [a]}\n", 3, 9, "leave it out"},
		{"a retention", leastGRPC + "retention: 1d\n", 3, 12, "leave it out"},
		{"a lease", leastGRPC + "lease: 1m\n", 3, 8, "leave it out"},
		{"a policy", leastGRPC + "policy_url: https://a/b\n", 3, 13, "leave it out"},
		{"a wait", leastGRPC + "limits: {wait: 1m}\n", 3, 16, "leave it out"},
		{"a header for an identity", "grpc: {method: a.B/C}\nidentity: {header: Location}\n", 2, 20, "/paymentId"},
		{"a revoked credential", leastGRPC + "credentials: {revoked: {a: s3cret}}\n", 3, 25, "leave it out"},
		{
			"one caller twice", leastGRPC + "credentials: {a: {x-key: s3cret}, b: {X-Key: s3cret}}\n", 3, 15,
			"of another caller",
		},
		{"a variant of HTTP's", leastGRPC + "variants: {put: {path: /a}}\n", 3, 18, "slow, failing and broken"},
		{"an unknown variant", leastGRPC + "variants: {slwo: {}}\n", 3, 12, `did you mean "slow"?`},
		{"an unknown generator", call("request: '{{amuont}}'"), 1, 32, "did you mean {{amount}}?"},
		{"a request that is no JSON", call("request: '{\"a\": {{uuid}}}'"), 1, 32, "stand in quotes"},
		{
			"a variant's request that is no JSON", leastGRPC + "variants: {slow: {request: '{,}'}}\n", 3, 28,
			"variants.slow.request is not JSON",
		},
		{"a request that is a mapping", call("request: {amount: 1}"), 1, 33, "into quotes"},
		{"two keys", call("key_field: a, key_metadata: b"), 1, 8, "one of key_metadata and key_field"},
		{"a field that is none", call("key_field: a.b"), 1, 34, "request_id"},
		{"a key of bytes", call("key_metadata: key-bin"), 1, 37, "bytes"},
		{"the key", call("metadata: {Idempotency-Key: x}"), 1, 8, "leave the line out"},
		{"the key of the recipe", call("metadata: {x-key: x}, key_metadata: X-Key"), 1, 8, "leave the line out"},
		{"the key's field", call("request: '{\"id\": \"x\"}', key_field: id"), 1, 32, "leave it out of the request"},
		{
			"the field of a profile", "profile: aip155\n" + call("request: '{\"request_id\": \"x\"}'"), 2, 32,
			"leave it out of the request",
		},
		{"gRPC's own metadata", call("metadata: {grpc-timeout: 1S}"), 1, 34, "belongs to gRPC"},
		{"metadata that is dropped", call("metadata: {User-Agent: me}"), 1, 34, "belongs to gRPC"},
		{"metadata with a space", call("metadata: {'a b': me}"), 1, 34, "not a name that metadata can have"},
		{"metadata beyond ASCII", leastGRPC + "credentials: {a: {x: 'Bearer ü'}}\n", 3, 22, "in ASCII"},
		{"a count by path", leastGRPC + "count: {get: {path: /n}}\n", 3, 21, "write url:"},
		{"a count without URL", leastGRPC + "count: {get: {pointer: /n}}\n", 3, 15, "count.get.url is missing"},
		{"a count that is no URL", leastGRPC + "count: {get: {url: /n}}\n", 3, 20, "http://127.0.0.1:8080/payments/count"},
		{"a count with a password", leastGRPC + "count: {get: {url: 'http://u:p@h/n'}}\n", 3, 20, "count.get.headers"},
		{"HTTP: an empty call", "grpc:\n" + least, 1, 1, `"grpc" has no value`},
		{"HTTP: a misspelled call", "grcp: {method: a.B/C}\n" + least, 1, 1, `did you mean "grpc"?`},
		{"HTTP: a count by URL", least + "count: {get: {url: 'http://h/n'}}\n", 3, 20, "follows the target"},
		{"HTTP: metadata", "request: {path: /a, metadata: {a: b}}\nidentity: {pointer: /id}\n", 1, 32, "write headers"},
		{"HTTP: a request in a variant", least + "variants: {slow: {request: '{}'}}\n", 3, 28, "write body"},
		{"HTTP: a profile of gRPC's", "profile: aip155\n" + least, 1, 10, "ietf-strict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantRefused(t, c.source, yamlfile.Position{Line: c.line, Column: c.column}, c.says)
		})
	}
}

// The count is asked for at its own address, which does not get the caller's credentials. Seen to fail with them sent.
func TestCountOverHTTPForGRPC(t *testing.T) {
	var asked *http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		io.WriteString(w, "5")
	}))
	t.Cleanup(s.Close)
	f := mustParse(t, leastGRPC+"credentials: {a: {authorization: '${TOKEN_A}'}}\ncount: {get: {url: '"+s.URL+"/n?x=y', headers: {X-Team: b}}}\n")
	target, _ := url.Parse("grpc://127.0.0.1:1")
	r, done, err := f.Open(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	want(t, "count", counted(t, r), 5)
	want(t, "request", asked.URL.String()+asked.Header.Get("Authorization")+asked.Header.Get("X-Team"), "/n?x=yb")
	want(t, "description", f.Describe(), "effects are counted by GET "+s.URL+"/n?x=y")
}

// The recipe in the documentation can be used as it stands.
func TestTheDocumentedRecipeForGRPC(t *testing.T) {
	text, err := os.ReadFile("../../docs/probing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## gRPC\n")
	_, block, _ := strings.Cut(section, "```yaml\n")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("there is no recipe")
	}
	r := opened(t, mustParse(t, block))
	if r.Slow == nil || r.Failing == nil || r.Broken == nil || r.Count == nil || len(r.A) == 0 || len(r.B) == 0 {
		t.Errorf("it leaves something out: %+v", r)
	}
}

// Two variables that are missing are no two callers that are one. Seen to fail with their lines compared.
func TestMissingVariablesAreAllThatIsWrong(t *testing.T) {
	for name, source := range map[string]string{"HTTP": least, "gRPC": leastGRPC} {
		_, err := Parse("r.yaml",
			[]byte(source+"credentials: {a: {x-token: \"${NONE_A}\"}, b: {x-token: \"${NONE_B}\"}}\n"), variablesOf)
		var faults *yamlfile.Faults
		if !errors.As(err, &faults) || len(faults.All) != 2 || !strings.Contains(err.Error(), "export NONE_A") ||
			!strings.Contains(err.Error(), "export NONE_B") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
