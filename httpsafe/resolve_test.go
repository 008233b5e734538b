package httpsafe_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// resolve resolves the only key that the store has.
func (k *kit) resolve(r retrysafe.Resolution) {
	k.Helper()
	known, err := k.store.List(k.Context(), retrysafe.ListParams{})
	if err != nil || len(known) != 1 {
		k.Fatalf("List = %d keys, %v; want 1", len(known), err)
	}
	r.Reason = "asked the bank"
	if _, err := k.guard.Resolve(k.Context(), known[0].Key.Digest(), r); err != nil {
		k.Fatal(err)
	}
}

// A retry with a key that was resolved as failed gets an answer that says so in each profile's form, does not invite
// to send it again, and stays the same, also when the window for replays has passed. Seen to fail with the row of
// SituationClosed taken out of situations (500, outcome-unknown), with replay's case for it taken out of the guard
// (422, key-expired), and, for each profile that has a status of its own, with that taken out.
func TestResolvedAsFailed(t *testing.T) {
	for _, c := range []struct {
		profile, says string
		key           func(*http.Request)
		status        int
	}{
		{"ietf", `"code":"key-closed"`, header("Idempotency-Key", "k"), 422},
		{"ietf-strict", `"code":"key-closed"`, header("Idempotency-Key", `"k"`), 422},
		{"stripe", `"code":"key-closed"`, header("Idempotency-Key", "k"), 400},
		{"stripe-v2", `"code":"key-closed"`, header("Idempotency-Key", "k"), 400},
		{"paypal", `"issue":"KEY_CLOSED"`, header("PayPal-Request-Id", "k"), 422},
		{"adyen", `"errorCode":"key-closed"`, header("Idempotency-Key", "k"), 422},
		{"repeatability", `"code":"KeyClosed"`, repeatable(time.Now()), 400},
		{"square", `"code":"KEY_CLOSED"`, body(`{"idempotency_key":"k"}`), 400},
		{"aws", `"__type":"KeyClosed"`, target("/payments?ClientToken=k"), 400},
		{"checkout", `"error_codes":["key_closed"]`, header("Cko-Idempotency-Key", "k"), 422},
		{"gocardless", `"reason":"key_closed"`, header("Idempotency-Key", "k"), 409},
	} {
		t.Run(c.profile, func(t *testing.T) {
			k := newKit(t)
			k.policy.Retention = retrysafe.Retention{Replay: time.Hour, Key: 3 * time.Hour}
			profile, err := httpsafe.ProfileByName(c.profile)
			if err != nil {
				t.Fatal(err)
			}
			k.options.Profile = profile
			k.handler = func(_ http.ResponseWriter, r *http.Request) { httpsafe.Unknown(r.Context()) }
			k.post("", c.key)
			k.resolve(retrysafe.Resolution{Action: retrysafe.ResolveFail})
			first := k.post("", c.key).want(c.status).wantIn(c.says)
			if profile.RetryHeader != "" {
				first.wantHeader(profile.RetryHeader, "false")
			}
			k.pass(2 * time.Hour)
			k.post("", c.key).want(c.status).wantIn(c.says)
			k.wantRuns(1)
		})
	}
}

// The decision outlives the window for replays, and the status says so.
// Seen to fail with replayable told from ReplayLeft alone.
func TestResolvedAsFailedIsFinal(t *testing.T) {
	k := newKit(t)
	k.policy.Retention = retrysafe.Retention{Replay: 24 * time.Hour, Key: 48 * time.Hour}
	k.abandon()
	k.resolve(retrysafe.Resolution{Action: retrysafe.ResolveFail})
	members := k.post("k").wantState("replayed; exp=@EXP").wantHeader("Idempotent-Replayed", "true").
		wantProblem(422, httpsafe.KeyClosed)
	if members["executed"] != "no" || members["new_key_required"] != true || members["retryable"] != false {
		t.Errorf("the problem is %v", members)
	}
	location := statusPath + "/" + k.digestOf("alice", false)
	k.status(location).want(200).wantMembers(map[string]any{"state": "failed", "status": 422.0})
	k.pass(25 * time.Hour)
	k.status(location).want(200).wantMembers(map[string]any{"replayable": true, "status": 422.0})
	k.status(location+"?result").wantHeader("Idempotent-Replayed", "true").wantProblem(422, httpsafe.KeyClosed)
	k.post("k", body("18")).wantProblem(422, httpsafe.KeyReused)
}

// A person completes a key with the response that its handler would have written.
func TestResolvedWithAResponse(t *testing.T) {
	k := newKit(t)
	k.abandon()
	h := http.Header{"Content-Type": {"application/json"}, "Location": {"/payments/1"}, "Connection": {"close"}}
	k.resolve(retrysafe.Resolution{
		Action: retrysafe.ResolveComplete,
		Result: httpsafe.NewResult(201, h, []byte(`{"paid":17}`)),
	})
	for range 2 {
		a := k.post("k").want(201).wantBody(`{"paid":17}`).wantHeader("Location", "/payments/1").wantHeader("Connection", "")
		a.wantHeader("Idempotent-Replayed", "true").wantState("replayed; exp=@EXP")
	}
	k.post("k", body("18")).wantProblem(422, httpsafe.KeyReused)

	// … as a failure: of the operation, and in the answer's own words.
	k = newKit(t)
	k.abandon()
	k.resolve(retrysafe.Resolution{
		Action: retrysafe.ResolveFail,
		Result: httpsafe.NewResult(402, nil, []byte("declined")),
	})
	k.post("k").want(402).wantBody("declined").wantHeader("Idempotent-Replayed", "true")
}

// Once a person has dropped the answer, it counts as expired from then on, and not at some time to come.
// Seen to fail with the time counted from the policy alone.
func TestPurgedAnswer(t *testing.T) {
	k := newKit(t)
	k.post("k").want(201)
	k.pass(time.Minute)
	digest := retrysafe.Key{Scope: "alice", ID: "k"}.Digest()
	if _, err := k.guard.Purge(t.Context(), digest, retrysafe.Purge{Reason: "asked to be forgotten"}); err != nil {
		t.Fatal(err)
	}
	members := k.post("k").wantProblem(422, httpsafe.KeyExpired)
	if at, err := time.Parse(time.RFC3339, members["expired_at"].(string)); err != nil || at.After(time.Now()) {
		t.Errorf("expired_at is %v, %v", members["expired_at"], err)
	}
	k.wantRuns(1)
}
