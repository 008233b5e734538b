package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// inspected is a store that counts claims, and that can be away.
type inspected struct {
	*memstore.Store
	claims atomic.Int64
	away   atomic.Bool
}

func (s *inspected) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	s.claims.Add(1)
	return s.Store.Claim(ctx, p)
}

func (s *inspected) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	if s.away.Load() {
		return nil, errors.New("the store is away")
	}
	return s.Store.Inspect(ctx, d)
}

// askable is a proxy whose clients may ask for their keys.
func askable(s *setup) {
	s.scope = httpsafe.ScopeHeader("Caller")
	s.options.Default.KeyStatus = true
}

// ask asks for a key as a caller, and returns the answer and the members of its document.
func (k *kit) ask(path, caller string) (answer, map[string]any) {
	k.t.Helper()
	got := k.send("GET", proxy.KeyStatusPath+path, "", "Caller", caller)
	var members map[string]any
	if strings.Contains(got.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal([]byte(got.body), &members); err != nil {
			k.t.Fatalf("%v: %s", err, got.body)
		}
	}
	return got, members
}

// A client learns the state of its key at each moment of its life, and its questions change no record.
//
// Seen to fail with a Claim in place of newest in ExplainKey.
func TestClientsAskForTheirKeys(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			close(began)
			<-goOn
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/large":
			w.Write(make([]byte, 2000))
			return
		}
		w.WriteHeader(201)
		io.WriteString(w, "made")
	})
	store := &inspected{Store: memstore.New(memstore.Options{})}
	k := newKit(t, up.URL, askable, func(s *setup) {
		s.store = store
		s.options.Default.Policy.MaxResult = 1000
	})
	states := func(key, state, next string) answer {
		t.Helper()
		digest := retrysafe.Key{Scope: "a", ID: key}.Digest()
		before, _ := store.Store.Inspect(t.Context(), digest)
		claims := store.claims.Load()
		got, document := k.ask("/"+key, "a")
		want(t, key+": state", document["state"], any(state))
		want(t, key+": next", document["next"], any(next))
		want(t, key+": Cache-Control", got.Header.Get("Cache-Control"), "no-store")
		after, _ := store.Store.Inspect(t.Context(), digest)
		for _, records := range [][]retrysafe.Record{before, after} {
			for i := range records { // time passes
				r := &records[i]
				if r.LeaseLeft > 0 != (state == "pending") {
					t.Errorf("%s: the lease runs for %v", key, r.LeaseLeft)
				}
				r.Age, r.EndedAge, r.LeaseLeft, r.ReplayLeft, r.KeyLeft, r.AuditLeft = 0, 0, 0, 0, 0, 0
			}
		}
		if !reflect.DeepEqual(before, after) || store.claims.Load() != claims {
			t.Errorf("%s: the question changed %+v to %+v", key, before, after)
		}
		return got
	}
	post := func(path, key string) { k.send("POST", path, "", "Idempotency-Key", key, "Caller", "a") }
	want(t, "status of an unknown key", states("k", "unknown", "retry").StatusCode, 404)
	done := make(chan struct{})
	go func() {
		post("/slow", "k")
		close(done)
	}()
	wait(t, began, "the upstream to be asked")
	if got := states("k", "pending", "wait"); got.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After while the operation runs")
	}
	close(goOn)
	wait(t, done, "the answer")
	states("k", "succeeded", "do-not-repeat")
	_, document := k.ask("/k", "a")
	result := k.send("GET", document["result"].(string), "", "Caller", "a")
	want(t, "result", result.body, "made")
	want(t, "status of the result", result.StatusCode, 201)
	want(t, "replayed", result.Header.Get("Idempotent-Replayed"), "true")

	post("/cut", "cut")
	states("cut", "abandoned", "do-not-repeat")
	post("/large", "large")
	states("large", "succeeded", "do-not-repeat")
	_, document = k.ask("/large", "a")
	want(t, "replayable", document["replayable"], any(false))

	store.away.Store(true)
	got, document := k.ask("/k", "a")
	want(t, "status while the store is away", got.StatusCode, 503)
	want(t, "code", document["code"], any("store-unavailable"))
	want(t, "Retry-After", got.Header.Get("Retry-After"), "1")
	want(t, "forwarded", up.count(), 3)
}

// Another caller's key looks like one that was never used, and nothing else of it can be seen. Seen to fail with
// "a" in place of scope in the method ask of keyStatusHandler.
func TestKeysOfOthersLookUnknown(t *testing.T) {
	up := newUpstream(t, ok)
	k := newKit(t, up.URL, askable)
	k.send("POST", "/pay", "", "Idempotency-Key", "k", "Caller", "a")
	never, _ := k.ask("/never", "b")
	for _, suffix := range []string{"", "?result"} {
		others, _ := k.ask("/k"+suffix, "b")
		never.Header.Del("Date")
		others.Header.Del("Date")
		if others.StatusCode != 404 || others.body != never.body || !reflect.DeepEqual(others.Header, never.Header) {
			t.Errorf("%d %v %s, and for a key that was never used %d %v %s", others.StatusCode, others.Header, others.body,
				never.StatusCode, never.Header, never.body)
		}
	}
}

// Routes whose keys are separate are named by the question, as a request to them would be.
//
// Seen to fail with the first route in place of nil for several kinds in newKeyStatus, with routeOf returning rest, and with
// o.Route left out.
func TestQuestionsNameTheirRoutes(t *testing.T) {
	up := newUpstream(t, ok)
	separate := httpsafe.IETF()
	separate.ScopeRoute = true
	k := newKit(t, up.URL, askable, func(s *setup) {
		s.options.Default.KeyStatus = false
		s.options.Routes = []proxy.Route{
			{Pattern: "POST /orders/{id}", KeyStatus: true, HTTP: httpsafe.Options{Profile: separate}},
			{Pattern: "POST /refunds/", KeyStatus: true},
			{Pattern: "POST /mails", KeyStatus: true},
			{Pattern: "POST /raw", KeyStatus: true, Unguarded: true},
		}
	})
	k.send("POST", "/orders/a%2Fb", "", "Idempotency-Key", "a/b", "Caller", "a")
	k.send("POST", "/refunds/17", "", "Idempotency-Key", "r", "Caller", "a")
	for path, status := range map[string]int{
		"/a%2Fb?route=POST%20/orders/a%252Fb":     200,
		"/a/b?route=POST%20/orders/17":            200, // the same route
		"/a%2Fb?route=POST%20/orders/%7Bid%7D":    200,
		"/a%2Fb?route=POST%20/refunds/17":         404,
		"/r?route=POST%20/refunds/17":             200,
		"/r?route=POST%20/mails":                  200, // it shares the scope
		"/r":                                      400,
		"/r?route=POST":                           400,
		"/r?route=POST%20/raw":                    400,
		"/r?route=POST%20/elsewhere":              400,
		"/a%2Fb?route=GET%20/orders/17":           400,
		"/a%2Fb?route=POST%20/orders/17&result":   200,
		"/%22a%2Fb%22?route=POST%20/orders/17":    200,
		"/a%2Fb%22?route=POST%20/orders/17":       400, // no key
		"//a/b?route=POST%20/orders/17":           404,
		"/a%2Fb?route=POST%20//evil.example/x%00": 400,
	} {
		if got, _ := k.ask(path, "a"); got.StatusCode != status {
			t.Errorf("%s is %d, want %d: %s", path, got.StatusCode, status, got.body)
		}
	}
	got := k.send("POST", proxy.KeyStatusPath+"/r?route=POST%20/mails", "", "Caller", "a", "Idempotency-Key", "x")
	want(t, "POST", got.StatusCode, 405)
	want(t, "Allow", got.Header.Get("Allow"), "GET, HEAD")
	want(t, "forwarded", up.count(), 2)
}

// Nothing is answered where no route has KeyStatus, and no route has it by default.
func TestKeyStatusIsOffByDefault(t *testing.T) {
	up := newUpstream(t, ok)
	k := newKit(t, up.URL)
	k.send("GET", proxy.KeyStatusPath+"/k", "")
	want(t, "forwarded", up.count(), 1)
	newObservedKit(t, up.URL, askable).send("GET", proxy.KeyStatusPath+"/k", "")
	want(t, "forwarded, because the route is observed", up.count(), 2)
	_, err := proxy.New(k.guard, httpsafe.ScopeNone(), proxy.Options{
		Upstream: proxy.Upstream{URL: mustURL(up.URL)},
		Default:  proxy.Route{KeyStatus: true, HTTP: httpsafe.Options{KeySource: httpsafe.BodyHash{Secret: []byte("s")}}},
	})
	if err == nil || !strings.Contains(err.Error(), "KeyStatus needs keys that clients choose") {
		t.Errorf("keys made from the body: %v", err)
	}
}

// A caller whose login was revoked learns nothing. Seen to fail with refuse taken out of keyStatus.
func TestKeyStatusIsAuthorized(t *testing.T) {
	up := newUpstream(t, ok)
	revoked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Caller") == "gone" {
			w.WriteHeader(403)
		}
	}))
	defer revoked.Close()
	k := newKit(t, up.URL, askable, func(s *setup) { s.options.AuthURL = mustURL(revoked.URL) })
	got, _ := k.ask("/k", "gone")
	want(t, "status", got.StatusCode, 403)
	got, _ = k.ask("/k", "a")
	want(t, "status of a caller with a login", got.StatusCode, 404)
}

// A client that was sent away with 202 may ask by its key as well.
func TestAskingForAnAsynchronousOperation(t *testing.T) {
	goOn := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		<-goOn
		io.WriteString(w, "report")
	})
	k := newKit(t, up.URL, askable, func(s *setup) {
		s.options.Default.HTTP.RespondAsync = true
		s.options.Default.Policy.OnInFlight = retrysafe.Wait(time.Minute)
	})
	got := k.send("POST", "/reports", "", "Idempotency-Key", "k", "Caller", "a", "Prefer", "respond-async")
	want(t, "status", got.StatusCode, 202)
	_, byKey := k.ask("/k", "a")
	want(t, "state", byKey["state"], any("pending"))
	byDigest := k.send("GET", got.Header.Get("Location"), "", "Caller", "a")
	if !strings.Contains(byDigest.body, `"next":"wait"`) {
		t.Errorf("the status URL has another document: %s", byDigest.body)
	}
	close(goOn)
	k.send("POST", "/reports", "", "Idempotency-Key", "k", "Caller", "a") // waits for the first
	_, byKey = k.ask("/k", "a")
	want(t, "state", byKey["state"], any("succeeded"))
	result, _ := k.ask("/k?result", "a")
	want(t, "result", result.body, "report")
}

// Questions take slots as other reads do. Seen to fail with keyStatus served without serveBounded.
func TestQuestionsAreBounded(t *testing.T) {
	up := newUpstream(t, ok)
	store := &stalled{Store: memstore.New(memstore.Options{}), asked: make(chan struct{}), goOn: make(chan struct{})}
	k := newKit(t, up.URL, askable, func(s *setup) {
		s.store, s.options.Limits.Concurrent = store, 1
	})
	first := make(chan answer)
	go func() {
		got, _ := k.ask("/k", "a")
		first <- got
	}()
	wait(t, store.asked, "the store to be asked")
	got, document := k.ask("/k", "a")
	want(t, "status", got.StatusCode, 503)
	want(t, "code", document["code"], any("overloaded"))
	close(store.goOn)
	want(t, "status of the first question", wait(t, first, "the first answer").StatusCode, 404)
}

// stalled is a store whose first answer waits.
type stalled struct {
	*memstore.Store
	first       atomic.Bool
	asked, goOn chan struct{}
}

func (s *stalled) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	if s.first.CompareAndSwap(false, true) {
		close(s.asked)
		<-s.goOn
	}
	return s.Store.Inspect(ctx, d)
}
