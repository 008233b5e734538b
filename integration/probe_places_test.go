package integration

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
)

// sessions has each order completed in a session of its caller, which can be done once.
type sessions struct {
	orders
	mu   sync.Mutex
	open map[string]string // callers of the sessions that are not complete, by their identifier
	made int
}

func (s *sessions) create(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	id := fmt.Sprintf("session-%d", s.made)
	s.open[id] = r.Header.Get("Authorization")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"session":%q}`, id)
}

func (s *sessions) complete(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	owner, ok := s.open[r.PathValue("id")]
	if ok = ok && owner == r.Header.Get("Authorization"); ok {
		delete(s.open, r.PathValue("id"))
	}
	s.mu.Unlock()
	if !ok {
		http.Error(w, `{"error":"no such session, or it is complete"}`, http.StatusNotFound)
		return
	}
	s.ServeHTTP(w, r)
}

// guarded serves the API behind the middleware, with keys where the source has them.
func (s *sessions) guarded(t *testing.T, source httpsafe.KeySource, scope httpsafe.ScopeFunc) string {
	t.Helper()
	options := httpsafe.Options{Profile: httpsafe.IETF(), KeySource: source}
	safe := httpsafe.Middleware(newProbedGuard(t, options.Profile), scope, options)
	mux := http.NewServeMux()
	for _, pattern := range routes() {
		mux.Handle(pattern, safe(s))
	}
	mux.Handle("POST /sessions", safe(http.HandlerFunc(s.create)))
	mux.Handle("POST /sessions/{id}/complete", safe(http.HandlerFunc(s.complete)))
	return serve(t, authenticated(mux))
}

// placed is a recipe whose keys are in the body or the query, and whose request completes a session.
func (s *sessions) placed(t *testing.T, address string, key httpsafe.KeyInBody) probe.Recipe {
	t.Helper()
	r := s.recipe(t, address, httpsafe.IETF())
	r.KeyBody, r.KeyQuery = key.Pointer, key.Query
	r.Variants.Late, r.Variants.Unavailable = nil, nil // a handler knows what it answers
	step := probe.Step{Name: "session", Keyed: true, Save: []probe.Saved{{Name: "session", Pointer: "/session"}}}
	step.Path, step.Header, step.Body = "/sessions", r.Request.Header, "{}"
	r.Request.Path, r.Request.Setup = "/sessions/{{session}}/complete", []probe.Step{step}
	return r
}

// Our middleware has no FAIL where keys are in the body or the query and each request needs a session. Without a scope
// another caller's key is in the way, which X01 finds. Seen to fail with FromAs taken out of likeAs (X01) and with
// withoutHeaderCases taken out (K01 and others).
func TestProbeOfKeysInOtherPlaces(t *testing.T) {
	for name, key := range map[string]httpsafe.KeyInBody{
		"member": {Pointer: "/meta/key"}, "query": {Query: "idempotency_key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &sessions{open: map[string]string{}}
			playAll(t, name, api.placed(t, api.guarded(t, key, httpsafe.ScopeCredential()), key), probe.Options{})
			open := &sessions{open: map[string]string{}}
			recipe := open.placed(t, open.guarded(t, key, httpsafe.ScopeNone()), key)
			report, err := cases.Run(t.Context(), recipe, probe.Options{Only: []string{"X01"}})
			if err != nil {
				t.Fatal(err)
			}
			if o, _ := report.Find("X01"); o.Verdict != probe.Fail {
				t.Errorf("X01 without a scope: %s %v", o.Verdict, o.Findings)
			}
		})
	}
}
