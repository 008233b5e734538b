package httpsafe_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

var errAsked = errors.New("the bank does not say")

func cannotSay(context.Context, *retrysafe.Attempt, retrysafe.Record) (*retrysafe.Result, error) {
	return nil, errAsked
}

// A client that gets no answer learns whether a retry helps. Seen to fail with the parameter taken out of
// unknownStatus, and with the case for Resumes taken out of the root's adviceFor.
func TestAnUnknownOutcomeSaysWhetherToAskAgain(t *testing.T) {
	for _, c := range []struct {
		policy        retrysafe.AbandonedPolicy
		first, second string // states
		retryable     bool
	}{
		{retrysafe.Refuse(), "unknown", "unknown", false},
		{retrysafe.Rerun(), "unknown; retry", "executed; attempt=2; exp=@EXP", false},
		{retrysafe.Reconcile(cannotSay), "unknown; retry", "unknown; retry", true},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			k := newKit(t)
			k.policy.OnAbandoned, k.options.Ambiguous = c.policy, retrysafe.AmbiguousUnknown
			done := k.handler
			k.handler = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
			k.post("k").want(502).wantState(c.first)
			k.handler = done
			a := k.post("k").wantState(c.second).wantHeader("Idempotent-Replayed", "")
			if a.StatusCode == http.StatusCreated {
				return
			}
			if p := a.wantProblem(500, httpsafe.OutcomeUnknown); p["retryable"] != c.retryable || p["executed"] != "unknown" {
				t.Errorf("problem %v", p)
			}
			location := statusPath + "/" + k.digestOf("alice", false)
			if p := k.status(location+"?result").wantState(c.second).
				wantProblem(500, httpsafe.OutcomeUnknown); p["retryable"] != c.retryable {
				t.Errorf("status resource: %v", p)
			}
		})
	}
}

// Seen to fail with the condition Resumes taken out of ambiguous.
func TestThePolicyPageSaysWhetherARetryGoesOn(t *testing.T) {
	const words = "outcome unknown, a retry resumes it"
	for _, policy := range []retrysafe.AbandonedPolicy{retrysafe.Refuse(), retrysafe.Rerun()} {
		guard := retrysafe.New(memstore.New(memstore.Options{}),
			retrysafe.Options{SweepEvery: -1, Policy: retrysafe.Policy{OnAbandoned: policy}})
		page := httpsafe.PolicyPage(httpsafe.Options{Ambiguous: retrysafe.AmbiguousUnknown}.Rules("/", guard.Policy()))
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/policy", nil))
		if got := strings.Contains(w.Body.String(), words); got != (policy.String() != "refuse") {
			t.Errorf("%s: %v, the page says %s", policy, got, w.Body)
		}
	}
}
