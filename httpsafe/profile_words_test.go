package httpsafe_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// TestServerErrorsAreTheServersFault: a program that reads that its request was refused corrects it and sends it with
// a new key, which after an unknown outcome is a second charge. Seen to fail with words for some slugs: what a proxy
// answers with was worded as an invalid request in six profiles.
func TestServerErrorsAreTheServersFault(t *testing.T) {
	for profile, words := range map[string][2]string{ // for 503, and for other server errors
		"stripe":     {`"type":"api_error"`, `"type":"api_error"`},
		"stripe-v2":  {`"type":"api_error"`, `"type":"api_error"`},
		"paypal":     {`"name":"SERVICE_UNAVAILABLE"`, `"name":"INTERNAL_SERVER_ERROR"`},
		"adyen":      {`"errorType":"internal"`, `"errorType":"internal"`},
		"square":     {`"category":"API_ERROR"`, `"category":"API_ERROR"`},
		"aws":        {`"__type":"ServiceUnavailable"`, `"__type":"InternalFailure"`},
		"checkout":   {`"error_type":"processing_error"`, `"error_type":"processing_error"`},
		"gocardless": {`"type":"gocardless"`, `"type":"gocardless"`},
		"acp":        {`"type":"service_unavailable"`, `"type":"processing_error"`},
		"adcp":       {`"recovery":"terminal"`, `"recovery":"terminal"`},
	} {
		p, err := httpsafe.ProfileByName(profile)
		if err != nil {
			t.Fatal(err)
		}
		for _, status := range []int{400, 409, 422, 500, 502, 503, 504} {
			w := httptest.NewRecorder()
			httpsafe.Options{Profile: p, PolicyURL: "/policy"}.WriteProblem(w,
				httpsafe.Problem{Slug: "of-a-proxy", Status: status, Executed: "unknown"})
			want := words[1]
			if status == http.StatusServiceUnavailable {
				want = words[0]
			}
			if got := strings.Contains(w.Body.String(), want); got != (status >= 500) {
				t.Errorf("%s, %d: %s", profile, status, w.Body)
			}
		}
	}
}

// TestRetryAdvice: clients of some providers obey a field that says whether to ask again. Without "false" stripe-node
// sends an outcome that stays unknown nine times. Seen to fail with the field set on requests in flight only.
func TestRetryAdvice(t *testing.T) {
	for name, field := range map[string]string{
		"stripe": "Stripe-Should-Retry", "stripe-v2": "Stripe-Should-Retry",
		"adyen": "Transient-Error",
	} {
		profile, err := httpsafe.ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			what         string
			handler      http.HandlerFunc
			abandoned    retrysafe.AbandonedPolicy
			first, retry string // the field
		}{
			{"a success", answering(201), retrysafe.Refuse(), "", ""},
			{"a conflict", answering(404), retrysafe.Refuse(), "", ""},
			{"a stored failure", answering(500), retrysafe.Refuse(), "false", "false"},
			{"a released failure", answering(429), retrysafe.Refuse(), "", ""},
			{"an unknown outcome", unsure, retrysafe.Refuse(), "false", "false"},
			{"an unknown outcome that is resumed", unsure, retrysafe.Rerun(), "true", "true"},
			{"one with a word of its own", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(field, "true")
				w.WriteHeader(500)
			}, retrysafe.Refuse(), "true", "false"},
		} {
			if profile.Class(500) == retrysafe.ClassRelease && !strings.HasPrefix(c.what, "an unknown") {
				continue // its failures are not kept
			}
			k := newKit(t)
			k.options.Profile, k.policy.OnAbandoned, k.handler = profile, c.abandoned, c.handler
			for i, want := range []string{c.first, c.retry, c.retry} {
				if got := strings.Join(k.post("k").Header.Values(field), ", "); got != want {
					t.Errorf("%s, %s, request %d: %s is %q, want %q", name, c.what, i+1, field, got, want)
				}
			}
		}
		k := newKit(t)
		k.options.Profile = profile
		k.store.fail(errDown, nil)
		k.post("k").want(503).wantHeader(field, "true")
		k.store.fail(nil, nil)
		k.during(func() { k.post("k").want(409).wantHeader(field, "true") })
		k.post("k", body("other")).wantHeader(field, "false")
	}
}

func answering(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }
}

func unsure(w http.ResponseWriter, r *http.Request) {
	httpsafe.Ambiguous(r.Context())
	w.WriteHeader(http.StatusBadGateway)
}

// TestRepeatabilityResult: accepted means that the request was executed, or may have been. Seen to fail with
// "accepted" on every response of a handler, that of a proxy which could not reach its upstream included, and
// "rejected" on an unknown outcome.
func TestRepeatabilityResult(t *testing.T) {
	for _, c := range []struct {
		what         string
		handler      http.HandlerFunc
		first, retry string
	}{
		{"a success", answering(201), "accepted", "accepted"},
		{"a failure", answering(500), "accepted", "accepted"},
		{"nothing happened", answering(429), "rejected", "rejected"},
		{"unknown outcome", unsure, "accepted", "accepted"},
	} {
		k := newKit(t)
		k.options.Profile, k.handler = httpsafe.Repeatability(), c.handler
		for _, want := range []string{c.first, c.retry} {
			if got := k.post("", repeatable(time.Now())).Header.Get("Repeatability-Result"); got != want {
				t.Errorf("%s: %q, want %q", c.what, got, want)
			}
		}
	}
}
