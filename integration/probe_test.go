package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// What we sell must pass what we test others with: in every profile, as middleware and as proxy.
// Seen to fail with the look at the fingerprint taken out of guard.go (M01 and others), and with ScopeNone as scope (X01).
func TestProbeFindsNothing(t *testing.T) {
	for _, profile := range httpsafe.Profiles() {
		for name, serve := range map[string]func(testing.TB, http.Handler, httpsafe.Profile) string{
			"middleware": behindMiddleware, "proxy": behindProxy,
		} {
			t.Run(profile.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				api := new(orders)
				report, err := probe.Run(t.Context(), api.recipe(t, serve(t, api, profile), profile), probe.Options{})
				if err != nil {
					t.Fatal(err)
				}
				checkReport(t, report)
			})
		}
	}
}

func checkReport(t *testing.T, report *probe.Report) {
	t.Helper()
	for _, o := range report.Outcomes {
		switch o.Verdict {
		case probe.Fail, probe.Broken:
			t.Errorf("%s %s: %s\n%v\n%s", o.ID, o.Name, o.Verdict, o.Findings, timeline(o))
		case probe.Warn:
			t.Logf("%s %s: %v", o.ID, o.Name, o.Findings)
		}
	}
	if n := report.Count(probe.Pass); n < 30 {
		t.Errorf("only %d cases passed: that is no run", n)
	}
	t.Logf("%d PASS, %d WARN, %d INFO, %d N/A, %d requests, %v", report.Count(probe.Pass), report.Count(probe.Warn),
		report.Count(probe.Info), report.Count(probe.NA), report.Requests, report.Took.Round(time.Millisecond))
}

func timeline(o probe.Outcome) string {
	var b strings.Builder
	for _, e := range o.Timeline {
		fmt.Fprintf(&b, "%d %s\n%s\n-> %s%s\n", e.No, e.Label, e.Request, e.Answer, e.Error)
	}
	return b.String()
}

func newProbedGuard(t testing.TB, profile httpsafe.Profile, o retrysafe.Observer) *retrysafe.Guard {
	t.Helper()
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{Observer: o, Policy: retrysafe.Policy{
		Retention: retrysafe.Retention{Replay: profile.Retention, Key: profile.Retention, Audit: profile.Retention},
	}})
	t.Cleanup(func() { _ = guard.Shutdown(context.Background()) })
	return guard
}

func behindMiddleware(t testing.TB, api http.Handler, profile httpsafe.Profile) string {
	t.Helper()
	options := httpsafe.Options{Profile: profile}
	guard := newProbedGuard(t, profile, nil)
	mux := http.NewServeMux()
	for _, pattern := range routes() {
		mux.Handle(pattern, httpsafe.Middleware(guard, httpsafe.ScopeCredential(), options)(api))
	}
	mux.Handle("GET /.well-known/idempotency-policy", httpsafe.PolicyPage(httpsafe.RoutePolicy{Pattern: "/orders", Guard: guard, Options: options}))
	server := httptest.NewServer(authenticated(mux))
	t.Cleanup(server.Close)
	return server.URL
}

func behindProxy(t testing.TB, api http.Handler, profile httpsafe.Profile) string {
	t.Helper()
	upstream := httptest.NewServer(api)
	t.Cleanup(upstream.Close)
	to, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	var guarded []proxy.Route
	for _, pattern := range routes() {
		guarded = append(guarded, proxy.Route{Pattern: pattern, HTTP: httpsafe.Options{Profile: profile}})
	}
	p, err := proxy.New(newProbedGuard(t, profile, proxy.Observer(nil)), httpsafe.ScopeCredential(), proxy.Options{
		Upstream: proxy.Upstream{URL: to}, Routes: guarded,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.CloseIdleConnections)
	server := httptest.NewServer(authenticated(p))
	t.Cleanup(server.Close)
	return server.URL
}

// routes are those of the API. Profiles in which a key belongs to its route tell routes apart by their patterns.
func routes() []string { return []string{"/orders", "/orders/", "/others"} }

// authenticated lets callers in whose token is known; what they may do is known before anybody looks at keys.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch token := r.Header.Get("Authorization"); {
		case strings.HasPrefix(r.URL.Path, "/.well-known/"), token == "Bearer a", token == "Bearer b":
			next.ServeHTTP(w, r)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
}

// orders is an API that creates something for every POST.
type orders struct{ made atomic.Int64 }

func (s *orders) Count(context.Context) (int64, error) { return s.made.Load(), nil }

func (s *orders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Request-Id", fmt.Sprint(time.Now().UnixNano()))
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		fmt.Fprintf(w, `{"orders":%d}`, s.made.Load())
		return
	}
	var in struct {
		Amount json.Number `json:"amount"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, `{"error":"that is not JSON"}`, http.StatusBadRequest)
		return
	}
	switch r.URL.Path {
	case "/orders/slow":
		time.Sleep(time.Second)
	case "/orders/failing":
		http.Error(w, `{"error":"no money"}`, http.StatusPaymentRequired)
		return
	case "/orders/broken":
		http.Error(w, `{"error":"broken"}`, http.StatusInternalServerError)
		return
	}
	body := fmt.Sprintf(`{"id":"order-%d","amount":%q`, s.made.Add(1), in.Amount)
	if r.URL.Path == "/orders/large" {
		body += `,"lines":"` + strings.Repeat("x", 1<<20) + `"`
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", fmt.Sprintf("/orders/%d", s.made.Load()))
	w.Header().Add("Set-Cookie", fmt.Sprintf("seen=%d", time.Now().UnixNano()))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, body+"}")
}

func (s *orders) recipe(t testing.TB, address string, profile httpsafe.Profile) probe.Recipe {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	header := []probe.HeaderLine{{Name: "Content-Type", Value: "application/json"}}
	at := func(path string) *probe.Template {
		return &probe.Template{Path: path, Header: header, Body: `{"amount": {{amount}}, "note": "{{uuid}}"}`}
	}
	bearer := func(token string) []probe.HeaderLine {
		return []probe.HeaderLine{{Name: "Authorization", Value: "Bearer " + token}}
	}
	return probe.Recipe{
		Target: to, Profile: profile.Name, KeyRequired: profile.Required, Request: *at("/orders"),
		Identity: probe.Identity{Pointer: "/id"}, Count: s, A: bearer("a"), B: bearer("b"), Revoked: bearer("none"),
		Variants: probe.Variants{
			Slow: at("/orders/slow"), Failing: at("/orders/failing"), Broken: at("/orders/broken"), Other: at("/others"), Large: at("/orders/large"),
			Cookie: at("/orders"), Invalid: &probe.Template{Path: "/orders", Header: header, Body: `{"amount": `},
			Read: &probe.Template{Method: "GET", Path: "/orders"},
		},
		PolicyURL: address + "/.well-known/idempotency-policy",
	}
}
