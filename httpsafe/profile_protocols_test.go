package httpsafe_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// The rules of commerce and data protocols, each as its own document has it. docs/commerce-and-data-protocols.md says
// which versions were read.

const (
	uuid7   = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
	longKey = "retry.key:of-40_characters-and-some-more"
)

// newProtocolKit returns a kit for a profile, as the proxy would use it.
func newProtocolKit(t *testing.T, p httpsafe.Profile) *kit {
	k := newKit(t)
	k.options.Profile = p
	k.policy.Retention = p.Records
	return k
}

// adcp returns a body with a key and other members.
func adcp(members string) func(*http.Request) {
	return body(fmt.Sprintf(`{"idempotency_key":"%s",%s}`, longKey, members))
}

// wantError checks the status and the text of a body, member by member: "…" stands for any text.
func (a *answer) wantError(status int, want string) *answer {
	a.k.Helper()
	a.want(status).wantHeader("Content-Type", "application/json")
	got := map[string]any{}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		a.k.Fatalf("%s: %v", a.body, err)
	}
	blank(got)
	text, _ := json.Marshal(got)
	if string(text) != want {
		a.k.Errorf("got  %s\nwant %s", text, want)
	}
	return a
}

// blank replaces what people read.
func blank(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if name == "message" || name == "content" || name == "detail" {
				v[name] = "…"
			}
			blank(value)
		}
	case []any:
		for _, value := range v {
			blank(value)
		}
	}
}

// ACP, "rfc.agentic_checkout.md", section 6.1: "A POST request without an Idempotency-Key header MUST be rejected
// with" type invalid_request, code idempotency_key_required, status 400.
//
// Seen to fail with Required taken out of ACP.
func TestACPRequiresAKey(t *testing.T) {
	k := newProtocolKit(t, httpsafe.ACP())
	k.post("").wantError(400, `{"code":"idempotency_key_required","message":"…","type":"invalid_request"}`)
	k.wantRuns(0)
}

// ACP, section 6.1: "The key is an opaque string, max 255 characters".
func TestACPKeys(t *testing.T) {
	k := newProtocolKit(t, httpsafe.ACP())
	k.post(strings.Repeat("k", 255)).want(201)
	k.post(strings.Repeat("k", 256)).wantError(400, `{"code":"key_malformed","message":"…","type":"invalid_request"}`)
}

// ACP, section 6.1: "Servers MUST scope keys to the authenticated identity + endpoint path; the same key on different
// endpoints is treated independently."
//
// Seen to fail with ScopePath taken out of ACP: the second session got 422.
func TestACPScope(t *testing.T) {
	k := newProtocolKit(t, httpsafe.ACP())
	for _, path := range []string{"/checkout_sessions/1", "/checkout_sessions/2", "/checkout_sessions/1"} {
		r := request("k", target(path))
		r.Pattern = "POST /checkout_sessions/{id}"
		k.send(r).want(201)
	}
	k.post("k", target("/checkout_sessions/1"), header("Caller", "bob")).want(201)
	k.wantRuns(3)
}

// ACP, section 6.2: "Equivalence is determined by semantic JSON equality of the request body only; headers are
// excluded." Equivalent are "different key ordering" and "1.0 vs 1"; "null value vs absent key" and "array element
// ordering" differ.
//
// Seen to fail with FingerprintJSON in place of the profile's Fingerprint, and with WithoutHeaders left out of it.
func TestACPEquivalence(t *testing.T) {
	k := newProtocolKit(t, httpsafe.ACP())
	k.post("k", body(`{"a":1.0,"b":[1,2],"c":null}`)).want(201)
	for _, same := range []string{` {"c":null, "b":[1,2.00],"a":1}`, `{"a":10e-1,"b":[1,2],"c":null}`} {
		k.post("k", body(same), header("Content-Type", "application/json; v=2"), header("If-Match", `"x"`),
			header("Content-Type", "text/plain")).want(201).wantHeader("Idempotent-Replayed", "true")
	}
	for _, other := range []string{
		`{"a":1,"b":[1,2]}`, `{"a":1,"b":[2,1],"c":null}`, `{"a":"1","b":[1,2],"c":null}`, `{"a":1.1,"b":[1,2],"c":null}`,
	} {
		k.post("k", body(other)).want(422)
	}
	k.wantRuns(1)
}

// ACP, section 6.3: "the original response with the same HTTP status code", with "Idempotent-Replayed: true".
func TestACPReplay(t *testing.T) {
	k := newProtocolKit(t, httpsafe.ACP())
	k.handler = answering(404)
	k.post("k").want(404).wantHeader("Idempotent-Replayed", "").wantHeader("Idempotency-Key", "k")
	k.post("k").want(404).wantHeader("Idempotent-Replayed", "true").wantHeader("Idempotency-Key", "k")
	k.wantRuns(1)
}

// ACP, section 6.4: 422 idempotency_conflict, "permanent"; 409 idempotency_in_flight, "Servers SHOULD include a
// Retry-After header (in seconds)". The body is the schema's Error, which has no other members.
//
// Seen to fail with the two codes swapped in refusalOfACP.
func TestACPErrors(t *testing.T) {
	k := newProtocolKit(t, httpsafe.ACP())
	k.during(func() {
		k.post("k").wantError(409, `{"code":"idempotency_in_flight","message":"…","type":"invalid_request"}`).
			wantHeader("Retry-After", "1")
	})
	k.post("k", body("{}")).wantError(422, `{"code":"idempotency_conflict","message":"…","type":"invalid_request"}`)
}

// ACP, section 6.5: "Responses with HTTP 5xx status codes MUST NOT be cached against the idempotency key. A retry with
// the same key after a 5xx MUST be processed as a fresh request." The same holds for Iceberg, whose schema says "Do
// not finalize (not stored/replayed): 5xx", and "every error" frees the key in AdCP. What a gateway may have answered
// after the operation ran is not stored either, but the outcome is unknown: only Options.Ambiguous says that it runs
// again.
//
// Seen to fail with ThreeClasses in place of StoreUnlessServerFailed, and with Ambiguous taken out of the profiles.
func TestServerErrorsAreNeverStored(t *testing.T) {
	for _, p := range []httpsafe.Profile{httpsafe.ACP(), httpsafe.AdCP(), httpsafe.Iceberg()} {
		for _, status := range []int{500, 501, 502, 503, 504} {
			for _, policy := range []retrysafe.AmbiguousPolicy{0, retrysafe.AmbiguousRelease} {
				k := newProtocolKit(t, p)
				k.options.Ambiguous = policy
				k.handler = func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(status)
					fmt.Fprint(w, k.ran.Load())
				}
				send := func() *answer { return k.post(uuid7, adcp(`"n":1`)) }
				send().want(status).wantBody("1")
				fresh := policy == retrysafe.AmbiguousRelease || status <= 501
				if again := send(); fresh {
					again.want(status).wantBody("2")
				} else if again.want(500); again.body == "1" {
					t.Errorf("%s, %d: the answer was stored", p.Name, status)
				}
				k.handler = answering(200)
				if again := send(); fresh {
					again.want(200)
				}
			}
		}
	}
}

// ACP, section 6.6: "at least 24 hours. After expiry, a reused key is treated as a new request (no error)". UCP,
// "signatures.md": "Minimum 24 hours, recommended 48 hours".
func TestRetentionOfProtocols(t *testing.T) {
	for name, least := range map[string]time.Duration{"acp": 24 * time.Hour, "ucp": 48 * time.Hour, "adcp": 24 * time.Hour} {
		p, err := httpsafe.ProfileByName(name)
		if err != nil || p.Retention < least || p.Records.Replay != 0 && p.Records.Replay < p.Retention {
			t.Errorf("%s: %v, %+v, %v", name, p.Retention, p.Records, err)
		}
	}
	k := newProtocolKit(t, httpsafe.ACP())
	k.post("k").want(201)
	k.pass(24*time.Hour - time.Second)
	k.post("k", body("{}")).want(422)
	k.pass(time.Minute)
	k.post("k", body("{}")).want(201).wantHeader("Idempotent-Replayed", "")
	k.wantRuns(2)
}

// UCP, "signatures.md": "Minimum 128 bits (e.g., UUID v4, 22+ char alphanumeric)"; "Per-client, per-operation type";
// "comparing the SHA-256 hash of the raw body bytes"; "Return cached response, do not re-execute"; "Reject with 409
// Conflict". "overview/index.md": errors have code and content.
//
// Seen to fail with KeyReused taken out of the Statuses, and with Min taken out of the syntax.
func TestUCP(t *testing.T) {
	key := strings.Repeat("k", 22)
	k := newProtocolKit(t, httpsafe.UCP())
	k.post("").wantError(400, `{"code":"key_missing","content":"…"}`)
	k.post(key[1:]).wantError(400, `{"code":"key_malformed","content":"…"}`)
	k.post(key, body(`{"a":1}`)).want(201)
	k.post(key, body(`{"a":1}`)).want(201)
	k.post(key, body(`{"a": 1}`)).wantError(409, `{"code":"key_reused","content":"…"}`)
	k.post(key, body(`{"a":1}`), target("/carts")).want(201)
	k.wantRuns(2)
}

// A key in flight is no 409 for UCP, whose 409 says "Idempotency key reused with different payload", nor for Iceberg,
// whose clients take 409 for a commit that has failed, and commit anew. 503 with Retry-After says to both to send the
// request again.
//
// Seen to fail with RequestInFlight taken out of the Statuses of each.
func TestInFlightIsNoConflict(t *testing.T) {
	for _, p := range []httpsafe.Profile{httpsafe.UCP(), httpsafe.Iceberg()} {
		k := newProtocolKit(t, p)
		k.while(request(uuid7), func() {
			k.post(uuid7).want(503).wantHeader("Retry-After", "1").wantIn("")
		})
		k.post(uuid7).want(201)
		k.wantRuns(1)
	}
}

// UCP, "signatures.md": "Fail closed (reject request with 503)". The others are no different.
func TestProtocolsFailClosed(t *testing.T) {
	for name, want := range map[string]string{
		"acp":     `{"code":"store_unavailable","message":"…","type":"service_unavailable"}`,
		"ucp":     `{"code":"store_unavailable","content":"…"}`,
		"iceberg": `{"error":{"code":503,"message":"…","type":"ServiceUnavailableException"}}`,
		"adcp": `{"adcp_error":{"code":"SERVICE_UNAVAILABLE","message":"…","recovery":"transient","retry_after":1},` +
			`"errors":[{"code":"SERVICE_UNAVAILABLE","message":"…","recovery":"transient","retry_after":1}],"status":"failed"}`,
	} {
		p, err := httpsafe.ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		k := newProtocolKit(t, p)
		k.store.fail(errDown, nil)
		k.post(uuid7, adcp(`"n":1`)).wantError(503, want)
		k.wantRuns(0)
	}
}

// AdCP, "security.mdx": idempotency_key is "required on every state-mutating AdCP task request", and matches
// "^[A-Za-z0-9_.:-]{16,255}$".
//
// Seen to fail with Min or Pattern taken out of the syntax.
func TestAdCPKeys(t *testing.T) {
	k := newProtocolKit(t, httpsafe.AdCP())
	refused := `{"adcp_error":{"code":"INVALID_REQUEST","message":"…","recovery":"correctable"},` +
		`"errors":[{"code":"INVALID_REQUEST","message":"…","recovery":"correctable"}],"status":"failed"}`
	k.post("", body(`{"n":1}`)).wantError(400, refused)
	for _, key := range []string{
		strings.Repeat("k", 15), strings.Repeat("k", 256), strings.Repeat("k", 16) + "!", strings.Repeat("é", 16),
	} {
		k.post("", body(`{"idempotency_key":"`+key+`"}`)).wantError(400, refused)
	}
	k.wantRuns(0)
	k.post("", adcp(`"n":1`)).want(201)
}

// AdCP, rule 5: "Same key, different canonical hash within the replay window MUST be rejected with
// IDEMPOTENCY_CONFLICT". Payload equivalence is "SHA-256(JCS(payload - excluded_fields))", and the excluded fields are
// "idempotency_key, context, governance_context, push_notification_config.authentication.credentials". "Reusing a key
// on another tool is a different payload."
//
// Seen to fail with Numbers taken out of the profile's Fingerprint, with each pointer but that of the key taken out of
// Exclude, and with recovery in the adcp_error of refusalOfAdCP.
func TestAdCPEquivalence(t *testing.T) {
	conflict := `{"adcp_error":{"code":"IDEMPOTENCY_CONFLICT","message":"…"},` +
		`"errors":[{"code":"IDEMPOTENCY_CONFLICT","message":"…","recovery":"correctable"}],"status":"failed"}`
	k := newProtocolKit(t, httpsafe.AdCP())
	config := `"push_notification_config":{"url":"%s","authentication":{"schemes":["Bearer"],"credentials":"%s"}}`
	k.post("", adcp(`"budget":1.0,"context":{"trace":1},"governance_context":"a",`+fmt.Sprintf(config, "u", "s"))).want(201)
	k.post("", adcp(`"budget":1,`+fmt.Sprintf(config, "u", "other"))).want(201)
	k.post("", adcp(`"context":[1e999],"budget":10e-1,`+fmt.Sprintf(config, "u", "other"))).want(201)
	k.post("", adcp(`"budget":1,`+fmt.Sprintf(config, "v", "s"))).wantError(422, conflict)
	k.post("", adcp(`"budget":1,"ext":null,`+fmt.Sprintf(config, "u", "s"))).wantError(422, conflict)
	k.post("", adcp(`"budget":1,`+fmt.Sprintf(config, "u", "s")), target("/update_media_buy")).wantError(422, conflict)
	k.wantRuns(1)
}

// AdCP, rule 9: "A second request with the same key AND a different canonical payload during the in-flight window MUST
// return IDEMPOTENCY_CONFLICT (rule 5), not IDEMPOTENCY_IN_FLIGHT", which has "top-level error.retry_after (seconds)".
func TestAdCPInFlight(t *testing.T) {
	k := newProtocolKit(t, httpsafe.AdCP())
	k.while(request("", adcp(`"n":1`)), func() {
		e := `{"code":"IDEMPOTENCY_IN_FLIGHT","message":"…","recovery":"transient","retry_after":1}`
		k.post("", adcp(`"n":1`)).wantError(409, `{"adcp_error":`+e+`,"errors":[`+e+`],"status":"failed"}`)
		k.post("", adcp(`"n":2`)).want(422).wantIn("IDEMPOTENCY_CONFLICT")
	})
	k.wantRuns(1)
}

// AdCP, rule 3: "On any error - validation, governance denial, transport failure, internal error - the key is not
// stored."
func TestAdCPStoresSuccessesOnly(t *testing.T) {
	k := newProtocolKit(t, httpsafe.AdCP())
	for i, status := range []int{400, 403, 404, 409, 422, 429, 500, 202} {
		k.handler = answering(status)
		k.post("", adcp(`"n":1`)).want(status)
		k.wantRuns(int64(i + 1))
	}
	k.post("", adcp(`"n":1`)).want(202)
	k.wantRuns(8)
}

// AdCP, rule 4: "The seller injects replayed: true onto the outgoing protocol envelope at response time", and it is
// "NOT part of the cached inner response". "protocol-envelope.json": context is an "opaque caller-supplied correlation
// object echoed unchanged in the response". RFC 9110, section 8.8.1: a strong ETag is that of the same bytes.
//
// Seen to fail with SetJSON left out of ofThisReplay, and with describeDecoded left out of writeStored.
func TestAdCPMarksReplays(t *testing.T) {
	const stored = `{"status":"completed","context":{"trace":1},"media_buy_id":"mb"}`
	const replayed = `{"replayed":true,"status":"completed","context":{"trace":2},"media_buy_id":"mb"}`
	for name, c := range map[string]struct{ coding, stored, want, tag string }{
		"plain":        {"", stored, replayed, `W/"v1"`},
		"gzip":         {"gzip", gzipped(stored), replayed, `W/"v1"`},
		"other coding": {"br", stored, stored, `"v1"`},
		"no JSON":      {"", "paid", "paid", `"v1"`},
		"no object":    {"", "[1]", "[1]", `"v1"`},
	} {
		t.Run(name, func(t *testing.T) {
			k := newProtocolKit(t, httpsafe.AdCP())
			k.handler = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Etag", `"v1"`)
				w.Header().Set("Content-Digest", "sha-256=:x:")
				w.Header().Set("Repr-Digest", "sha-256=:x:")
				if c.coding != "" {
					w.Header().Set("Content-Encoding", c.coding)
				}
				io.WriteString(w, c.stored)
			}
			accepts := header("Accept-Encoding", "gzip, br")
			k.post("", adcp(`"context":{"trace":1}`), accepts).want(200).wantBody(c.stored).wantHeader("Etag", `"v1"`)
			for range 2 {
				a := k.post("", adcp(`"context":{"trace":2}`), accepts).want(200).wantBody(c.want).wantHeader("Etag", c.tag)
				a.wantHeader("Content-Length", fmt.Sprint(len(c.want)))
				digests := a.Header.Get("Content-Digest") + a.Header.Get("Repr-Digest")
				if changed := c.want == replayed; changed != (digests == "") {
					t.Errorf("digests: %v", a.Header)
				}
			}
			k.wantRuns(1)
		})
	}
}

// AdCP, "context-sessions.mdx": "Failure responses MUST also echo context verbatim", and "When the caller does NOT
// provide a context object, the agent MUST NOT fabricate one."
//
// Seen to fail with echoInto left out of writeProblem.
func TestAdCPRefusalsEchoTheContext(t *testing.T) {
	k := newProtocolKit(t, httpsafe.AdCP())
	k.post("", adcp(`"n":1`)).want(201)
	const context = `"context":{"trace":1.50,"b":[],"a":null}`
	for status, members := range map[int]string{400: `{`, 422: fmt.Sprintf(`{"idempotency_key":%q,"n":2,`, longKey)} {
		k.post("", body(members+context+`}`)).want(status).wantIn(`{` + context + `,"adcp_error":`)
		for _, without := range []string{`"context":null}`, `"CONTEXT":{}}`} {
			if a := k.post("", body(members+without)).want(status); strings.Contains(a.body, "ontext") {
				t.Errorf("the answer to %s: %s", members+without, a.body)
			}
		}
	}
	k.post("", body(`[]`)).want(400).wantIn(`{"adcp_error":`)
}

// AdCP, rule 6: "A request arriving after eviction with a key the seller has seen SHOULD be rejected with
// IDEMPOTENCY_EXPIRED rather than silently treated as new. Sellers SHOULD allow a ±60s clock-skew window at the TTL
// boundary".
//
// Seen to fail with Key taken out of Records (the request ran again), and with the minute taken out of Replay.
func TestAdCPExpiry(t *testing.T) {
	k := newProtocolKit(t, httpsafe.AdCP())
	k.post("", adcp(`"n":1`)).want(201)
	k.pass(24*time.Hour + 59*time.Second)
	k.post("", adcp(`"n":1`)).want(201).wantIn(`"replayed":true`)
	for range 2 {
		k.pass(2 * time.Second)
		e := `{"code":"IDEMPOTENCY_EXPIRED","message":"…","recovery":"correctable"}`
		k.post("", adcp(`"n":1`)).wantError(422, `{"adcp_error":`+e+`,"errors":[`+e+`],"status":"failed"}`)
		k.post("", adcp(`"n":2`)).want(422)
		k.pass(7 * 24 * time.Hour)
	}
	k.wantRuns(1)
}

// AdCP, rule 8: RATE_LIMITED rejections "MUST populate retry_after (seconds)" and "MUST NOT be cached".
func TestAdCPQuota(t *testing.T) {
	k := newProtocolKit(t, httpsafe.AdCP())
	wait := 2 * time.Hour
	k.options.QuotaFunc = func(*http.Request, string) time.Duration { return wait }
	k.post("", adcp(`"n":1`)).want(429).wantIn(`"code":"RATE_LIMITED"`).wantIn(`"retry_after":3600`) // the schema's maximum
	wait = 0
	k.post("", adcp(`"n":1`)).want(201)
}

// AdCP, "IDEMPOTENCY_CONFLICT response shape": it "MUST NOT include the cached response, the original payload, a
// canonical-form diff, or any fingerprint derived from them".
func TestAdCPConflictTellsNothing(t *testing.T) {
	k := newProtocolKit(t, httpsafe.AdCP())
	k.post("", adcp(`"secret":1`)).want(201)
	a := k.post("", adcp(`"secret":2`)).want(422)
	for _, word := range []string{"secret", "mismatch", "urn:", longKey} {
		if strings.Contains(a.body, word) {
			t.Errorf("%s is in %s", word, a.body)
		}
	}
}

// Iceberg, "rest-catalog-open-api.yaml": "Key format: UUIDv7 in string form (RFC 9562)". The key is optional.
//
// Seen to fail with UUID in place of UUID7.
func TestIcebergKeys(t *testing.T) {
	k := newProtocolKit(t, httpsafe.Iceberg())
	for _, key := range []string{someUUID, "k", "017f22e2-79b0-7cc3-18c4-dc0c0c07398f"} {
		k.post(key).wantError(400, `{"error":{"code":400,"message":"…","type":"KeyMalformedException"}}`)
	}
	k.wantRuns(0)
	k.post(strings.ToUpper(uuid7)).want(201)
	k.post(uuid7).want(201)
	k.wantRuns(1)
	k.post("").want(201)
	k.wantRuns(2)
}

// Iceberg: "The idempotency key must be globally unique (no reuse across different operations)"; "Finalize & replay:
// 200, 201, 204, and deterministic terminal 4xx (including 409 such as AlreadyExists)". Errors have "message, type and
// code".
//
// Seen to fail with StoreExecuted in place of StoreUnlessServerFailed, and with 419 stored.
func TestIcebergFinalizes(t *testing.T) {
	for status, kept := range map[int]bool{
		200: true, 201: true, 204: true, 400: true, 404: true, 409: true, 401: false, 419: false, 429: false, 500: false,
	} {
		k := newProtocolKit(t, httpsafe.Iceberg())
		k.handler = answering(status)
		k.post(uuid7).want(status)
		k.post(uuid7).want(status)
		if got := k.ran.Load() == 1; got != kept {
			t.Errorf("%d: kept is %v", status, got)
		}
		if kept {
			k.post(uuid7, target("/v1/other")).
				wantError(422, `{"error":{"code":422,"message":"…","type":"UnprocessableEntityException"}}`)
		}
	}
	k := newProtocolKit(t, httpsafe.Iceberg())
	k.handler = unsure
	k.post(uuid7).want(502)
	k.post(uuid7).wantError(500, `{"error":{"code":500,"message":"…","type":"CommitStateUnknownException"}}`)
}

// JSON-RPC 2.0, section 5: the id "MUST be the same as the value of the id member in the Request Object. If there was
// an error in detecting the id in the Request object (e.g. Parse error/Invalid Request), it MUST be Null." Section
// 5.1: -32600 is "Invalid Request", -32603 "Internal error", and -32000 to -32099 are for servers.
//
// Seen to fail with ReplaceJSON left out of writeProblem, and with the body not read before a key is missing.
func TestJSONRPCErrors(t *testing.T) {
	k := newProtocolKit(t, httpsafe.JSONRPC())
	k.options.Required = true
	call := func(id string) func(*http.Request) {
		return body(`{"jsonrpc":"2.0","method":"pay","params":[1],"id":` + id + `}`)
	}
	want := func(a *answer, status int, id, code, slug string) {
		t.Helper()
		a.want(status).wantIn(`"id":` + id).wantIn(`"code":` + code).wantIn(`"jsonrpc":"2.0"`).wantIn(`"code":"` + slug + `"`)
	}
	want(k.post("", call(`"seven"`)), 400, `"seven"`, "-32600", "key-missing")
	want(k.post("", body("no")), 400, "null", "-32600", "key-missing")
	want(k.post(`"`, call("7")), 400, "7", "-32600", "key-malformed")
	k.while(request("k", call("1")), func() {
		a := k.post("k", call("2"))
		want(a, 409, "2", "-32000", "request-in-flight")
		a.wantIn(`"retry_after":1`)
	})
	want(k.post("k", body(`{"method":"other","id":3}`)), 422, "3", "-32000", "key-reused")
	k.handler = unsure
	k.post("unsure", call("4")).want(502)
	want(k.post("unsure", call("5")), 500, "5", "-32603", "outcome-unknown")
}

// JSON-RPC 2.0, section 5: a replay has the id of the request that gets it, and another id is no other request.
func TestJSONRPCReplay(t *testing.T) {
	k := newProtocolKit(t, httpsafe.JSONRPC())
	k.handler = func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"jsonrpc":"2.0","result":1,"id":1}`) }
	k.post("k", body(`{"method":"pay","id":1}`)).want(200)
	k.post("k", body(`{"id":2,"method":"pay"}`)).want(200).wantBody(`{"jsonrpc":"2.0","result":1,"id":2}`).
		wantHeader("Idempotent-Replayed", "true")
	k.wantRuns(1)
}

// What is compared may leave out every header, in any way to compare bodies.
func TestFingerprintWithoutHeaders(t *testing.T) {
	k := newKit(t)
	k.options.Fingerprint = httpsafe.FingerprintRaw().WithoutHeaders().WithoutHeaders()
	k.options.FingerprintHeaders = []string{"Api-Version"}
	k.post("k").want(201)
	k.post("k", header("Content-Type", "text/plain"), header("If-Match", `"a"`)).want(201)
	k.post("k", body("18")).want(422)
	k.post("k", header("Api-Version", "2")).want(422)
	k.post("k", header("X-HTTP-Method-Override", "DELETE")).want(422)
	k.wantRuns(1)
	if got := k.options.Fingerprint.String(); got != "raw bytes, no headers" {
		t.Error(got)
	}
}
