package httpsafe_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

const keyStatusPath = "/.well-known/idempotency"

// ask asks what became of the key at the end of a path.
func (k *kit) ask(path string, change ...func(*http.Request)) *answer {
	k.Helper()
	k.once.Do(k.build)
	mux := http.NewServeMux()
	mux.Handle(keyStatusPath+"/{key...}", httpsafe.KeyStatusHandler(k.guard, k.scope, k.options))
	r := httptest.NewRequest(http.MethodGet, keyStatusPath+path, nil)
	r.Header.Set("Caller", "alice")
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return &answer{k, w.Result(), w.Body.String()}
}

// asked asks for the key k, and checks that the question has changed nothing.
func (k *kit) asked(members map[string]any) *answer {
	k.Helper()
	k.once.Do(k.build)
	digest := retrysafe.Key{Scope: "alice", ID: "k"}.Digest()
	before, _ := k.store.Store.Inspect(k.Context(), digest)
	a := k.ask("/k").want(200).wantHeader("Cache-Control", "no-store")
	a.wantMembers(members)
	if after, _ := k.store.Store.Inspect(k.Context(), digest); !reflect.DeepEqual(before, after) {
		k.Errorf("the question changed %+v to %+v", before, after)
	}
	return a
}

// Seen to fail with the case of SituationOutcomeUnknown taken out of stateOf, and with those of SituationKeyNotFound,
// SituationInFlight and NewKeyRequired out of next.
func TestKeyStatus(t *testing.T) {
	k := newKit(t)
	k.policy.Retention = retrysafe.Retention{Replay: time.Hour, Key: 3 * time.Hour}
	unknown := k.ask("/k").wantHeader("Cache-Control", "no-store")
	unknown.wantMembers(map[string]any{"state": "unknown", "executed": "unknown", "next": "retry"})
	unknown.wantProblem(404, httpsafe.KeyUnknown)
	first := k.during(func() {
		k.asked(map[string]any{"state": "pending", "next": "wait", "executed": "unknown"}).wantHeader("Retry-After", "1")
	})
	k.asked(map[string]any{
		"state": "succeeded", "next": "do-not-repeat", "executed": "yes", "status": 201.0, "replayable": true,
		"result": keyStatusPath + "/k?result",
	}).wantHeader("Retry-After", "")
	k.ask("/k?result").want(201).wantBody(first.body).wantHeader("Idempotent-Replayed", "true")
	if got := k.ask("/k", method("HEAD")).want(200); got.Header.Get("Content-Length") == "0" {
		t.Error("HEAD has no Content-Length")
	}
	k.pass(2 * time.Hour)
	k.asked(map[string]any{"state": "succeeded", "next": "do-not-repeat", "executed": "yes", "replayable": false})
	k.ask("/k?result").wantProblem(422, httpsafe.KeyExpired)
	k.pass(2 * time.Hour)
	k.ask("/k").wantProblem(404, httpsafe.KeyUnknown)

	k.abandon()
	k.asked(map[string]any{"state": "abandoned", "next": "do-not-repeat", "executed": "unknown"})
	k.guard.Resolve(t.Context(), retrysafe.Key{Scope: "alice", ID: "k"}.Digest(),
		retrysafe.Resolution{Action: retrysafe.ResolveFail, Reason: "not in the ledger"})
	k.asked(map[string]any{"state": "failed", "next": "new-key", "executed": "no", "status": 422.0})
	k.wantRuns(2)
}

func TestKeyStatusOfAReleasedKey(t *testing.T) {
	k := newKit(t)
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		a, _ := retrysafe.AttemptFrom(r.Context())
		retrysafe.Step(a, "reserve", func(context.Context, string) (int, error) { return 1, nil })
		httpsafe.Release(r.Context())
	}
	k.post("k")
	k.asked(map[string]any{"state": "released", "next": "retry", "executed": "no"})
	k.ask("/k?result").wantMembers(map[string]any{"retryable": true, "executed": "no", "code": "key-unknown"})
}

// The answer for another caller's key is that for a key that was never used, byte by byte. Seen to fail with
// "a" in place of scope in ask.
func TestKeyStatusIsForTheCallerOnly(t *testing.T) {
	for _, routed := range []bool{false, true} {
		k := newKit(t)
		k.options.Profile.ScopeRoute = routed
		route := "?route="
		if routed {
			route = "?route=POST%20/payments"
		}
		k.post("k", header("Caller", "a")).want(201)
		k.ask("/k"+route, header("Caller", "a")).want(200)
		never := k.ask("/other"+route, header("Caller", "b"))
		for _, caller := range []string{"b", "a/", "a%2F", "A", "a/POST %2Fpayments"} {
			got := k.ask("/k"+route, header("Caller", caller))
			got.wantProblem(404, httpsafe.KeyUnknown)
			if got.body != never.body || !reflect.DeepEqual(got.Header, never.Header) {
				t.Errorf("%q gets %s %v, and for a key that was never used %s %v", caller, got.body, got.Header, never.body, never.Header)
			}
			k.ask("/k"+route+"&result", header("Caller", caller)).wantProblem(404, httpsafe.KeyUnknown)
		}
		k.ask("/k"+route, header("Caller")).wantProblem(401, httpsafe.ScopeUnresolved)
	}
}

// Keys are read as their requests have them.
func TestKeyStatusReadsKeys(t *testing.T) {
	for _, c := range []struct {
		name, sent string // as the header or the body has it
		profile    httpsafe.Profile
		source     httpsafe.KeySource
		found      []string // in the path
	}{
		{"quoted or bare", `"k"`, httpsafe.IETF(), nil, []string{"k", "%22k%22"}},
		{"quoted only", `"k"`, httpsafe.IETFStrict(), nil, []string{"k", "%22k%22"}},
		{"with special characters", `"a/b \"c\" %2F"`, httpsafe.IETF(), nil, []string{"%22a%2Fb%20%5C%22c%5C%22%20%252F%22"}},
		{"a bare slash", `a/b`, httpsafe.IETF(), nil, []string{"a%2Fb", "a/b", "%22a/b%22"}},
		{"where quotes belong to the key", `"k"`, httpsafe.Stripe(), nil, []string{"%22k%22"}},
		{"in the body", `für "17"`, httpsafe.Square(), nil, []string{"f%C3%BCr%20%2217%22"}},
		{"in the query", `k`, httpsafe.IETF(), httpsafe.KeyInBody{Query: "rid"}, []string{"k"}},
	} {
		k := newKit(t)
		k.options.Profile, k.options.KeySource = c.profile, c.source
		change := header("Idempotency-Key", c.sent)
		switch {
		case c.source != nil:
			change = target("/payments?rid=" + c.sent)
		case c.profile.BodyField != "":
			change = body(`{"idempotency_key":"für \"17\""}`)
		}
		k.post("", change).want(201)
		for _, path := range c.found {
			if got := k.ask("/" + path + "?route=POST%20/payments"); got.StatusCode != 200 {
				t.Errorf("%s: %s is %d: %s", c.name, path, got.StatusCode, got.body)
			}
		}
		k.wantRuns(1)
	}
	k := newKit(t)
	k.ask("/").wantProblem(400, httpsafe.KeyMalformed)
	k.ask("/"+strings.Repeat("x", 256)).wantProblem(400, httpsafe.KeyMalformed)
	k.ask("/%22k").wantProblem(400, httpsafe.KeyMalformed)
	for _, m := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		k.ask("/k", method(m)).want(405).wantHeader("Allow", "GET, HEAD").wantBody("")
	}
}

// Keys that are separate on each route are asked for with the route.
func TestKeyStatusOfARoute(t *testing.T) {
	k := newKit(t)
	k.options.Profile.ScopeRoute, k.options.ScopeVersion = true, "v2"
	k.post("k", target("/payments/a%2Fb?x=1")).want(201)
	got := k.ask("/k?route=POST%20/payments/a%252Fb").want(200)
	got.wantMembers(map[string]any{"result": keyStatusPath + "/k?route=POST+%2Fpayments%2Fa%252Fb&result"})
	k.ask("/k?route=POST+%2Fpayments%2Fa%252Fb&result").want(201)
	k.ask("/k?route=PATCH%20/payments/a%252Fb").wantProblem(404, httpsafe.KeyUnknown)
	for _, route := range []string{"", "?route=", "?route=POST", "?route=/payments"} {
		k.ask("/k"+route).wantProblem(400, httpsafe.RouteMissing)
	}

	k = newKit(t)
	k.options.Profile.ScopeRoute, k.options.Route = true, "POST /payments/{id}"
	k.post("k", target("/payments/17")).want(201)
	k.ask("/k").want(200)
	k.ask("/k?route=POST%20/payments/17").want(200)
	k.ask("/k?route=PATCH%20/payments/17").wantProblem(404, httpsafe.KeyUnknown)
}

// A store that fails is not a key without a record, and neither is one that cannot be read. Seen to fail with the case of
// ErrKeyUnknown in ExplainKey for each error.
func TestKeyStatusWithoutStore(t *testing.T) {
	k := newKit(t)
	k.post("k").want(201)
	k.store.fail(errDown, nil)
	k.ask("/k").wantHeader("Retry-After", "1").wantProblem(503, httpsafe.StoreUnavailable)
	k.ask("/k?result").wantHeader("Retry-After", "1").wantProblem(503, httpsafe.StoreUnavailable)

	k = newKit(t)
	k.guard = retrysafe.New(struct{ retrysafe.Store }{k.store}, retrysafe.Options{})
	k.once.Do(func() {})
	k.ask("/k").wantProblem(501, httpsafe.NotSupported)
}

// A key that would be refused for its age is not to be retried. Seen to fail with isTooOldKey taken out of ask.
func TestKeyStatusOfAnOldKey(t *testing.T) {
	k := newKit(t)
	k.options.MaxKeyAge = time.Hour
	k.ask("/01890000-0000-7000-8000-000000000000").wantProblem(422, httpsafe.KeyExpired)
	got := k.ask("/01890000-0000-7000-8000-000000000000")
	got.wantMembers(map[string]any{"state": "unknown", "next": "do-not-repeat"})
}

// The memory for an answer is counted. Seen to fail with take left out of writeResult.
func TestKeyStatusResultIsCounted(t *testing.T) {
	k := newKit(t)
	k.handler = func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 9000)) }
	k.post("k").want(200)
	held := 0
	k.options.MemoryFunc = func(_ context.Context, n int) *httpsafe.Problem {
		held += n
		return nil
	}
	k.ask("/k?result").want(200)
	if held != 0 {
		t.Errorf("%d bytes were not given back", held)
	}
	k.options.MemoryFunc = func(context.Context, int) *httpsafe.Problem {
		return &httpsafe.Problem{Slug: "full", Status: http.StatusServiceUnavailable}
	}
	k.ask("/k?result").want(503)
	k.ask("/k").want(200)
}

func TestKeyStatusHandlerRefusesKeysThatNoClientKnows(t *testing.T) {
	g := retrysafe.New(newKit(t).store, retrysafe.Options{})
	for _, o := range []httpsafe.Options{
		{KeySource: httpsafe.NaturalKey{Fields: []string{"/order"}}},
		{KeySource: httpsafe.BodyHash{Secret: []byte("s")}},
		{Attempts: -1},
	} {
		func() {
			defer func() {
				if p := recover(); p == nil {
					t.Errorf("%+v is accepted", o)
				}
			}()
			httpsafe.KeyStatusHandler(g, httpsafe.ScopeNone(), o)
		}()
	}
}
