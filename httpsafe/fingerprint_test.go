package httpsafe_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// TestOtherOperationUnderOneKey: the host, and what replaces the method, say what is to be done, whatever else is
// compared. Seen to fail with fingerprints of version 1: tenant b was shown what had been made for tenant a, and a
// DELETE by override was answered as a POST.
func TestOtherOperationUnderOneKey(t *testing.T) {
	for name, fingerprint := range map[string]httpsafe.FingerprintMethod{
		"raw": httpsafe.FingerprintRaw(), "json": httpsafe.FingerprintJSON(), "none": httpsafe.FingerprintNone(),
	} {
		for _, c := range []struct {
			what   string
			second []func(*http.Request)
			same   bool
		}{
			{"host", []func(*http.Request){host("b.example.com")}, false},
			{"port", []func(*http.Request){host("A.example.com:8443")}, true},
			{"override", []func(*http.Request){header("X-HTTP-Method-Override", "DELETE")}, false},
			{"override", []func(*http.Request){header("X-HTTP-Method", "DELETE")}, false},
			{"override", []func(*http.Request){header("X-Method-Override", "DELETE")}, false},
			{"path", []func(*http.Request){target("/refunds")}, false},
			{"range", []func(*http.Request){header("Range", "bytes=0-9")}, name == "none"},
			{"query", []func(*http.Request){target("/payments?n=2")}, false},
			{"method", []func(*http.Request){method("PATCH")}, false},
		} {
			k := newKit(t)
			k.options.Fingerprint = fingerprint
			k.post("k", host("a.example.com")).want(201)
			retry := k.post("k", append([]func(*http.Request){host("a.example.com")}, c.second...)...)
			if want := map[bool]int{true: 201, false: 422}[c.same]; retry.StatusCode != want {
				t.Errorf("%s, another %s: %d, want %d", name, c.what, retry.StatusCode, want)
			}
			if !c.same && !strings.Contains(retry.body, `"mismatch":["`) {
				t.Errorf("%s, another %s: %s", name, c.what, retry.body)
			}
			k.wantRuns(1)
		}
	}
}

// A request target such as "x:alice" has no path. Seen to fail with targetOf returning the path: the second request got
// the answer of the first.
func TestTargetsWithoutAPath(t *testing.T) {
	k := newKit(t)
	opaque := func(name string) func(*http.Request) {
		return func(r *http.Request) { r.URL = &url.URL{Scheme: "x", Opaque: name} }
	}
	k.post("k", opaque("alice")).want(201)
	k.post("k", opaque("bob")).wantProblem(422, httpsafe.KeyReused)
	k.wantRuns(1)
}

// Headers that options name count with every method. Seen to fail with them left out of FingerprintNone.
func TestNamedHeadersCountWithEveryMethod(t *testing.T) {
	for _, method := range []httpsafe.FingerprintMethod{httpsafe.FingerprintRaw(), httpsafe.FingerprintNone()} {
		k := newKit(t)
		k.options.Fingerprint, k.options.FingerprintHeaders = method, []string{"X-Forwarded-Host"}
		k.post("k", header("X-Forwarded-Host", "a.example.com")).want(201)
		k.post("k", header("X-Forwarded-Host", "b.example.com")).wantProblem(422, httpsafe.KeyReused)
		k.wantRuns(1)
	}
}

// A retry that goes to another address of the same service is still a retry. Seen to fail with the case for IPv6, and
// with that for IPv4, taken out of hostName: 422.
func TestAddressesAreNoNames(t *testing.T) {
	k := newKit(t)
	k.post("k", host("10.0.0.1:8080")).want(201).wantState("executed; exp=@EXP")
	for _, other := range []string{"10.0.0.2:8080", "10.0.0.1", "[2001:db8::1]:443", "[::1]", ""} {
		k.post("k", host(other)).want(201).wantState("replayed; exp=@EXP")
	}
	k.post("k", host("api.example.com")).wantProblem(422, httpsafe.KeyReused)
	k.wantRuns(1)
}

// TestRoutesThatCompareDifferently: one that compares no bodies and one that does never answer each other's keys.
// Seen to fail without checks in the records of FingerprintNone: POST /delete got the answer of POST /upload.
func TestRoutesThatCompareDifferently(t *testing.T) {
	for _, first := range []bool{true, false} {
		upload, remove := newKit(t), newKit(t)
		remove.store = upload.store
		upload.options.Fingerprint = httpsafe.FingerprintNone()
		one, two := upload, remove
		if !first {
			one, two = two, one
		}
		one.post("k", target("/one")).want(201)
		two.post("k", target("/two")).wantProblem(422, httpsafe.KeyReused)
		two.wantRuns(0)
		two.post("k", target("/one")).want(201).wantState("replayed; exp=@EXP") // the same operation, configured anew
	}
}

// TestFingerprintVersion: records of another version are not compared, and a ReconcileFunc learns the version.
// Seen to fail with the version left out of the algorithm's name: 422.
func TestFingerprintVersion(t *testing.T) {
	for _, method := range []httpsafe.FingerprintMethod{httpsafe.FingerprintRaw(), httpsafe.FingerprintNone()} {
		for _, secret := range []string{"", "s"} {
			before, after := newKit(t), newKit(t)
			after.store = before.store
			before.options.Fingerprint, after.options.Fingerprint = method, method
			before.options.Secret, after.options.Secret = []byte(secret), []byte(secret)
			after.options.FingerprintVersion = "upstream-key"
			before.post("old").want(201)
			after.post("old", body("else")).want(201).wantState("replayed; exp=@EXP")
			after.post("new").want(201)
			for id, want := range map[string]string{"old": "", "new": "upstream-key"} {
				known, err := after.store.Inspect(t.Context(), retrysafe.Key{Scope: "alice", ID: id}.Digest())
				if err != nil || len(known) != 1 {
					t.Fatal(known, err)
				}
				if got := httpsafe.FingerprintVersionOf(known[0].Fingerprint); got != want {
					t.Errorf("%s: version %q, want %q", known[0].Fingerprint, got, want)
				}
			}
		}
	}
	if err := (httpsafe.Options{FingerprintVersion: "a.b"}).Validate(); err == nil {
		t.Error("a version with a dot is accepted")
	}
}
