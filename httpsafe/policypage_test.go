package httpsafe_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func policyPage(accept ...string) *httptest.ResponseRecorder {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{
		Policy: retrysafe.Policy{
			Retention:        retrysafe.Retention{Replay: time.Hour, Key: 48 * time.Hour},
			FailureRetention: retrysafe.Retention{Replay: 10 * time.Minute},
		},
	})
	page := httpsafe.PolicyPage(
		httpsafe.Options{
			Required: true, PolicyURL: "https://api.example.com/policy", MaxKeyAge: 36 * time.Hour,
		}.Rules("POST /payments", guard.Policy()),
		httpsafe.Options{Profile: httpsafe.Square(), InFlightStatus: true, StatusPath: "/s"}.Rules("/<script>",
			guard.Policy()),
	)
	r := httptest.NewRequest(http.MethodGet, "/policy", nil)
	r.Header["Accept"] = accept
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w
}

func TestPolicyPageJSON(t *testing.T) {
	w := policyPage("application/json")
	var page struct {
		Routes []struct {
			Route, Profile, Key string
			Required            bool
			Methods             []string
			ReplaySeconds       int    `json:"replay_seconds"`
			KeySeconds          int    `json:"key_seconds"`
			FailureKeySeconds   int    `json:"failure_key_seconds"`
			MaxKeyAgeSeconds    int    `json:"max_key_age_seconds"`
			Released            string `json:"statuses_released"`
		}
		Problems []struct {
			Code, Type, Title string
			Status            int
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
		t.Fatal(err)
	}
	one := page.Routes[0]
	if one.Route != "POST /payments" || !one.Required || one.ReplaySeconds != 3600 || one.KeySeconds != 48*3600 ||
		one.FailureKeySeconds != 600 || one.MaxKeyAgeSeconds != 36*3600 || page.Routes[1].MaxKeyAgeSeconds != 0 ||
		one.Key != "header Idempotency-Key" {
		t.Errorf("route %+v", one)
	}
	if one.Released != "401, 403, 407, 421, 423, 425, 429, 511" {
		t.Errorf("released: %s", one.Released)
	}
	if two := page.Routes[1]; two.Profile != "square" || !strings.Contains(two.Key, "/idempotency_key") {
		t.Errorf("route %+v", two)
	}
	found := false
	for _, p := range page.Problems {
		found = found || p.Type == "https://api.example.com/policy#request-in-flight" && p.Status == 409 && p.Title != ""
	}
	if !found || len(page.Problems) < 13 {
		t.Errorf("problems %+v", page.Problems)
	}
}

func TestPolicyPageHTML(t *testing.T) {
	w := policyPage("text/html", "application/json;q=0.9")
	text := w.Body.String()
	if got := w.Header().Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	for _, amount := range []string{"1 h after the first one", "2 d after the first answer", "is younger than 36 h", "1 MiB", "taken for 10 min"} {
		if !strings.Contains(text, amount) {
			t.Errorf("the page does not say %q", amount)
		}
	}
	for _, slug := range []string{
		"key-missing", "key-malformed", "body-unreadable", "scope-unresolved", "request-in-flight", "body-too-large",
		"key-reused", "key-expired", "early-data", "signature-invalid", "key-quota", "outcome-unknown", "not-supported", "store-unavailable",
	} {
		if !strings.Contains(text, `<section id="`+slug+`">`) {
			t.Errorf("no fragment %s", slug)
		}
	}
	if n := strings.Count(text, "docs/outcome-unknown.md"); n != 1 { // at the problem after which operators have to act
		t.Errorf("%d links to the runbook", n)
	}
	if strings.Contains(text, "<script>") {
		t.Error("a pattern is not escaped")
	}
}

func TestPolicyPageNegotiates(t *testing.T) {
	for _, c := range []struct{ accept, want string }{
		{"", "text/html; charset=utf-8"},
		{"*/*", "text/html; charset=utf-8"},
		{"application/json", "application/json"},
		{"text/*;q=0.5, application/*", "application/json"},
		{"text/html;q=0, */*", "application/json"},
		{"text/html;q=oops, application/json;q=0.1", "application/json"},
	} {
		if got := policyPage(c.accept).Header().Get("Content-Type"); got != c.want {
			t.Errorf("Accept %q: %q, want %q", c.accept, got, c.want)
		}
	}
}
