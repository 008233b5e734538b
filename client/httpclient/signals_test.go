package httpclient_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpkey"
)

// Every row of the table, by what the last of the answers makes the client do. The answer after those listed is 201.
// Seen to fail, row by row, with each row taken out of signals; no-credential and unauthorized have tests of their
// own.
func TestSignals(t *testing.T) {
	const unknown, notReplayable = -1, -2
	const isAProblem = "Content-Type: application/problem+json"
	failed := `{"error":"x"}`
	aws := httpkey.AWS()
	for _, c := range []struct {
		signal  string
		profile httpkey.Profile
		status  int // of the response; unknown: ErrOutcomeUnknown; 0: another error
		sent    int
		answers []answerFunc
		why     string // of an unknown outcome; empty: any
	}{
		{signal: "not-sent", status: 201, sent: 2, answers: []answerFunc{undialled}},
		{signal: "not-sent", status: 0, sent: 4, answers: []answerFunc{undialled, undialled, undialled, undialled}},
		{signal: "no-answer", status: 201, sent: 2, answers: []answerFunc{lost}},
		{signal: "no-answer", status: unknown, sent: 4, answers: []answerFunc{lost, lost, lost, lost}},
		{signal: "not-sent", status: unknown, sent: 4, answers: []answerFunc{lost, undialled, undialled, undialled}},
		{
			signal: "in-flight", status: 201, sent: 2,
			answers: []answerFunc{reply(202, "Idempotency-Status: in-flight", `{"state":"pending","status":"/s/1"}`)},
		},
		{ // of an inbox
			signal: "success", status: 202, sent: 1,
			answers: []answerFunc{reply(202, "Idempotency-Status: in-flight", `{"state":"accepted","status":"/s/1"}`)},
		},
		{ // of the operation
			signal: "success", status: 202, sent: 1,
			answers: []answerFunc{reply(202, "Idempotency-Status: executed", `{"state":"pending","status":"/s/1"}`)},
		},
		{signal: "outcome-unknown", status: unknown, sent: 1, answers: []answerFunc{problemOf(500, "outcome-unknown")}},
		{
			signal: "outcome-unknown", status: unknown, sent: 1,
			answers: []answerFunc{reply(500, "Idempotency-Status: unknown")},
		},
		{
			signal: "outcome-unknown", profile: httpkey.PayPal(), status: unknown, sent: 1,
			answers: []answerFunc{reply(500, `{"name":"X","details":[{"issue":"OUTCOME_UNKNOWN"}]}`)},
		},
		{
			signal: "outcome-unknown", profile: httpkey.Checkout(), status: unknown, sent: 1,
			answers: []answerFunc{reply(500, `{"error_type":"x","error_codes":["outcome_unknown"]}`)},
		},
		{
			signal: "outcome-unknown", status: unknown, sent: 1,
			answers: []answerFunc{reply(502, "Idempotency-Status: unknown; retry=?0")},
		},
		{
			signal: "outcome-unknown", status: unknown, sent: 1,
			answers: []answerFunc{reply(502, "Idempotency-Status: unknown", isAProblem,
				`{"code":"outcome-unknown","retryable":true}`)},
		},
		{
			signal: "outcome-resumes", status: 201, sent: 2,
			answers: []answerFunc{reply(502, "Idempotency-Status: unknown; retry")},
		},
		{
			signal: "outcome-resumes", status: 201, sent: 2,
			answers: []answerFunc{reply(502, "Idempotency-Status: unknown;a=1;retry=?1")},
		},
		{
			signal: "outcome-resumes", status: 201, sent: 2,
			answers: []answerFunc{reply(200, "Idempotency-Status: unknown; retry")},
		},
		{signal: "outcome-resumes", status: 201, sent: 2, answers: []answerFunc{reply(502,
			"Idempotency-Status: unknown; retry", isAProblem, `{"code":"x","retryable":false}`)}},
		{
			signal: "outcome-resumes", status: 201, sent: 2,
			answers: []answerFunc{reply(500, isAProblem, `{"code":"outcome-unknown","retryable":true}`)},
		},
		{
			signal: "outcome-resumes", status: unknown, sent: 4,
			answers: repeat(4, reply(502, "Idempotency-Status: unknown; retry")),
		},
		{
			signal: "replayed-failure", status: unknown, sent: 1,
			answers: []answerFunc{reply(500, "Idempotent-Replayed: true", failed)},
		},
		{
			signal: "replayed-failure", status: unknown, sent: 1,
			answers: []answerFunc{reply(504, "Idempotency-Replayed: true", failed)},
		},
		{
			signal: "replayed-failure", status: unknown, sent: 1,
			answers: []answerFunc{reply(502, "Idempotency-Status: replayed; body=?0")},
		},
		{
			signal: "replayed-not-kept", status: notReplayable, sent: 1,
			answers: []answerFunc{reply(201, "Idempotency-Status: replayed; body=?0; exp=@1")},
		},
		{
			signal: "replayed-not-kept", status: notReplayable, sent: 2,
			answers: []answerFunc{lost, reply(422, "Idempotent-Replayed: true", "Idempotency-Status: replayed;body=?0")},
		},
		{signal: "replayed", status: 201, sent: 1, answers: []answerFunc{reply(201, "Idempotent-Replayed: true")}},
		{
			signal: "replayed", status: 201, sent: 1,
			answers: []answerFunc{reply(201, "Idempotency-Status: replayed; body=?1")},
		},
		{signal: "replayed", status: 429, sent: 1, answers: []answerFunc{reply(429, "Idempotency-Status: replayed; exp=@1")}},
		{
			signal: "replayed", status: 409, sent: 1,
			answers: []answerFunc{problemOf(409, "request-in-flight", "X-Idempotency-Replayed: true")},
		},
		{signal: "success", status: 204, sent: 1, answers: []answerFunc{reply(204)}},
		{signal: "success", status: 202, sent: 1, answers: []answerFunc{reply(202, "Idempotency-Status: in-flight")}},
		{signal: "redirect-followed", status: 201, sent: 2, answers: []answerFunc{reply(307, "Location: /v2/charges")}},
		{
			signal: "redirect-followed", status: 201, sent: 2,
			answers: []answerFunc{reply(308, "Location: https://bank.example/v2/charges")},
		},
		{
			signal: "redirect-not-followed", status: 307, sent: 1,
			answers: []answerFunc{reply(307, "Location: https://evil.example/charges")},
		},
		{
			signal: "redirect-not-followed", status: 308, sent: 1,
			answers: []answerFunc{reply(308, "Location: http://bank.example/charges")},
		},
		{signal: "redirect-not-followed", status: 307, sent: 11, answers: repeat(11, reply(307, "Location: /charges"))},
		{signal: "redirect", status: 303, sent: 1, answers: []answerFunc{reply(303, "Location: /charges/1")}},
		{
			signal: "redirect", profile: httpkey.Square(), status: unknown, sent: 2,
			answers: []answerFunc{lost, reply(302, "Location: /login")},
		},
		{
			signal: "unprotected-failure", status: unknown, sent: 1,
			answers: []answerFunc{reply(503, "Idempotency-Status: ignored")},
		},
		{signal: "unprotected", status: 429, sent: 1, answers: []answerFunc{reply(429, "Idempotency-Status: ignored")}},
		{
			signal: "unprotected", status: unknown, sent: 2,
			answers: []answerFunc{lost, reply(422, "Idempotency-Status: ignored")},
		},
		{signal: "key-reused", status: 422, sent: 1, answers: []answerFunc{problemOf(422, "key-reused")}},
		{
			signal: "key-reused", profile: httpkey.Stripe(), status: 400, sent: 1,
			answers: []answerFunc{reply(400, `{"error":{"type":"idempotency_error"}}`)},
		},
		{
			signal: "key-reused", profile: httpkey.Square(), status: 400, sent: 1,
			answers: []answerFunc{reply(400, `{"errors":[{"code":"IDEMPOTENCY_KEY_REUSED"}]}`)},
		},
		{
			signal: "key-reused", profile: aws, status: 400, sent: 1,
			answers: []answerFunc{reply(400, `{"__type":"com.amazonaws.x#IdempotentParameterMismatchException"}`)},
		},
		{
			signal: "key-reused", profile: aws, status: 400, sent: 1,
			answers: []answerFunc{reply(400, "X-Amzn-Errortype: IdempotentParameterMismatchException:http://x", `{}`)},
		},
		{
			signal: "key-reused", profile: aws, status: 400, sent: 1,
			answers: []answerFunc{reply(400,
				`<Response><Errors><Error><Code>IdempotentParameterMismatch</Code></Error></Errors></Response>`)},
		},
		{
			signal: "key-reused", profile: httpkey.PayPal(), status: 422, sent: 1,
			answers: []answerFunc{reply(422, `{"details":[{"issue":"PAYPAL_REQUEST_ID_PREVIOUSLY_USED"}]}`)},
		},
		{
			signal: "key-reused", profile: httpkey.Adyen(), status: 422, sent: 1,
			answers: []answerFunc{reply(422, `{"errorCode":"704"}`)},
		},
		{
			signal: "key-reused", profile: httpkey.Repeatability(), status: 400, sent: 1,
			answers: []answerFunc{reply(400, "Repeatability-Result: rejected", `{"error":{"code":"KeyReused"}}`)},
		},
		{signal: "key-reused", status: unknown, sent: 2, answers: []answerFunc{lost, problemOf(422, "key-reused")}},
		{signal: "key-expired", status: unknown, sent: 1, answers: []answerFunc{problemOf(422, "key-expired")}},
		{
			signal: "key-expired", profile: httpkey.Repeatability(), status: unknown, sent: 1,
			answers: []answerFunc{reply(412, "Repeatability-Result: rejected")},
		},
		{signal: "in-flight", status: 201, sent: 2, answers: []answerFunc{problemOf(409, "request-in-flight")}},
		{signal: "in-flight", status: 201, sent: 11, answers: repeat(10, problemOf(409, "request-in-flight"))},
		{signal: "in-flight", status: 201, sent: 2, answers: []answerFunc{reply(409, "Idempotency-Status: in-flight")}},
		{
			signal: "in-flight", profile: httpkey.Stripe(), status: 201, sent: 2,
			answers: []answerFunc{reply(409, `{"error":{"code":"idempotency_key_in_use"}}`)},
		},
		{
			signal: "in-flight", profile: httpkey.PayPal(), status: 201, sent: 2,
			answers: []answerFunc{reply(409, `{"details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}`)},
		},
		{
			signal: "in-flight", profile: httpkey.Adyen(), status: 201, sent: 2,
			answers: []answerFunc{reply(422, "Transient-Error: true", `{"errorCode":"704"}`)},
		},
		{
			signal: "in-flight", profile: httpkey.Adyen(), status: 201, sent: 2,
			answers: []answerFunc{reply(409, `{"errorCode":"704"}`)},
		},
		{
			signal: "in-flight", profile: httpkey.Repeatability(), status: 201, sent: 2,
			answers: []answerFunc{reply(409, "Repeatability-Result: rejected")},
		},
		{
			signal: "in-flight", profile: aws, status: 201, sent: 2,
			answers: []answerFunc{reply(400, `{"__type":"IdempotentRequestInProgress"}`)},
		},
		{
			signal: "in-flight", profile: httpkey.Checkout(), status: 201, sent: 2,
			answers: []answerFunc{reply(429, `{"error_codes":["request_in_flight"]}`)},
		},
		{
			signal: "in-flight", profile: httpkey.GoCardless(), status: 201, sent: 2,
			answers: []answerFunc{reply(409, "Retry-After: 1",
				`{"error":{"errors":[{"reason":"idempotent_creation_conflict"}]}}`)},
		},
		{
			signal: "conflict", profile: httpkey.GoCardless(), status: 409, sent: 1,
			answers: []answerFunc{reply(409, `{"error":{"errors":[{"reason":"idempotent_creation_conflict"}]}}`)},
		},
		{
			signal: "conflict", profile: httpkey.GoCardless(), status: 409, sent: 1,
			answers: []answerFunc{reply(409,
				`{"error":{"errors":[{"reason":"idempotent_creation_conflict","links":{"conflicting_resource_id":"PM1"}}]}}`)},
		},
		{
			signal: "conflict", profile: httpkey.GoCardless(), status: 409, sent: 1,
			answers: []answerFunc{reply(409, "Retry-After: 1",
				`{"error":{"errors":[{"reason":"idempotent_creation_conflict","links":{"conflicting_resource_id":"PM1"}}]}}`)},
		},
		{signal: "refused", status: 400, sent: 1, answers: []answerFunc{problemOf(400, "key-missing")}},
		{signal: "refused", status: 400, sent: 1, answers: []answerFunc{problemOf(400, "key-malformed")}},
		{signal: "refused", status: 413, sent: 1, answers: []answerFunc{reply(413)}},
		{signal: "refused", status: 501, sent: 1, answers: []answerFunc{reply(501)}},
		{signal: "refused", status: 401, sent: 1, answers: []answerFunc{reply(401)}},
		{signal: "refused", status: 403, sent: 1, answers: []answerFunc{reply(403)}},
		{signal: "refused", status: unknown, sent: 2, answers: []answerFunc{lost, reply(403)}},
		{signal: "refused", status: 403, sent: 2, answers: []answerFunc{lost, reply(403, "Idempotency-Status: executed")}},
		{signal: "told-to-retry", status: 201, sent: 2, answers: []answerFunc{problemOf(503, "store-unavailable")}},
		{signal: "told-to-retry", status: 503, sent: 4, answers: repeat(4, problemOf(503, "store-unavailable"))},
		{signal: "told-to-retry", status: unknown, sent: 4, answers: repeat(4, reply(503, // it may have run before
			isAProblem, `{"code":"store-unavailable","retryable":true,"executed":"unknown"}`))},
		{signal: "told-to-retry", status: 201, sent: 2, answers: []answerFunc{problemOf(400, "body-unreadable")}},
		{signal: "told-to-retry", status: 201, sent: 2, answers: []answerFunc{reply(422, "Transient-Error: true")}},
		{signal: "told-to-retry", status: unknown, sent: 4, answers: repeat(4, reply(409, "Stripe-Should-Retry: true"))},
		{signal: "told-to-retry", status: unknown, sent: 4, answers: repeat(4, reply(500, "Stripe-Should-Retry: true"))},
		{signal: "told-to-stop", status: unknown, sent: 1, answers: []answerFunc{reply(500, "Stripe-Should-Retry: false")}},
		{signal: "told-to-stop", status: unknown, sent: 1, answers: []answerFunc{reply(502,
			"Content-Type: application/problem+json", `{"code":"upstream-failed","retryable":false,"executed":"unknown"}`)}},
		{signal: "told-to-stop", status: 503, sent: 1, answers: []answerFunc{reply(503,
			"Content-Type: application/problem+json", `{"retryable":false,"executed":"no"}`)}},
		{signal: "told-to-stop", status: 429, sent: 1, answers: []answerFunc{reply(429, "Transient-Error: false")}},
		{signal: "try-later", status: 201, sent: 2, answers: []answerFunc{reply(408)}},
		{signal: "try-later", status: 201, sent: 2, answers: []answerFunc{reply(425)}},
		{signal: "try-later", status: 429, sent: 4, answers: repeat(4, reply(429))},
		{signal: "try-later", status: unknown, sent: 4, answers: []answerFunc{lost, reply(429), reply(429), reply(429)}},
		{signal: "server-error", status: 201, sent: 2, answers: []answerFunc{reply(500)}},
		{signal: "server-error", status: unknown, sent: 4, answers: repeat(4, reply(500))},
		{signal: "server-error", profile: httpkey.Stripe(), status: unknown, sent: 2, answers: repeat(2, reply(500))},
		{signal: "gateway-error", status: 201, sent: 4, answers: []answerFunc{reply(502), reply(503), reply(504)}},
		{signal: "gateway-error", status: unknown, sent: 4, answers: repeat(4, reply(504))},
		{signal: "gateway-error", status: 503, sent: 4, answers: repeat(4, reply(503, "Idempotency-Status: released"))},
		{signal: "conflict", status: 409, sent: 1, answers: []answerFunc{reply(409, `{"error":"sold out"}`)}},
		{signal: "conflict", status: 409, sent: 1, answers: []answerFunc{reply(409, "Stripe-Should-Retry: false")}},
		{signal: "conflict", status: unknown, sent: 4, answers: []answerFunc{lost, reply(409), reply(409), reply(409)}},
		{
			signal: "conflict", profile: httpkey.GoCardless(), status: unknown, sent: 2,
			answers: []answerFunc{lost, reply(409, `{"error":"x"}`)},
		},
		{
			signal: "conflict", profile: httpkey.GoCardless(), status: 409, sent: 2, // names no resource
			answers: []answerFunc{lost, reply(409, `{"error":{"errors":[{"reason":"idempotent_creation_conflict"}]}}`)},
		},
		{signal: "answer", status: 404, sent: 1, answers: []answerFunc{reply(404)}},
		{signal: "answer", status: 422, sent: 1, answers: []answerFunc{reply(422, `{"code":"amount-too-small"}`)}},
		{
			signal: "answer", status: unknown, sent: 4, why: client.GaveUpAttempts,
			answers: []answerFunc{lost, reply(404), reply(404), reply(404)},
		},
		{
			signal: "answer", status: unknown, sent: 2,
			answers: []answerFunc{lost, reply(422, "Stripe-Should-Retry: false")},
		},
		{
			signal: "answer", status: 422, sent: 2,
			answers: []answerFunc{lost, reply(422, "Idempotency-Status: executed; exp=@1")},
		},
		{
			signal: "replayed", profile: httpkey.Stripe(), status: 402, sent: 3,
			answers: []answerFunc{lost, reply(402), reply(402, "Idempotent-Replayed: true")},
		},
		{
			signal: "answer", profile: httpkey.PayPal(), status: unknown, sent: 2, why: client.GaveUpRefused,
			answers: []answerFunc{lost, reply(422)},
		},
		{signal: "answer", profile: httpkey.PayPal(), status: unknown, sent: 2, answers: []answerFunc{reply(500), reply(404)}},
		{signal: "answer", profile: httpkey.PayPal(), status: 422, sent: 2, answers: []answerFunc{undialled, reply(422)}},
		{
			signal: "answer", profile: httpkey.Repeatability(), status: unknown, sent: 4,
			answers: []answerFunc{lost, reply(404), reply(404), reply(404)},
		},
		{
			signal: "answer", profile: httpkey.Repeatability(), status: 404, sent: 2,
			answers: []answerFunc{lost, reply(404, "Repeatability-Result: accepted")},
		},
	} {
		t.Run(c.signal, func(t *testing.T) {
			p := play(t, httpclient.Options{Profile: c.profile}, nil, append(c.answers, reply(201))...)
			switch {
			case c.status == unknown:
				wantUnknown(t, p.err, c.why)
			case c.status == notReplayable:
				if !errors.Is(p.err, client.ErrNotReplayable) || errors.Is(p.err, client.ErrOutcomeUnknown) {
					t.Errorf("error %v, want ErrNotReplayable", p.err)
				}
			case c.status == 0 && (p.err == nil || errors.Is(p.err, client.ErrOutcomeUnknown)), c.status > 0 &&
				p.status != c.status:
				t.Errorf("status %d, error %v, want status %d", p.status, p.err, c.status)
			}
			if len(p.sent) != c.sent {
				t.Errorf("sent %d times, want %d", len(p.sent), c.sent)
			}
			if got := p.seen[min(len(c.answers), len(p.seen))-1].Signal; got != c.signal {
				t.Errorf("signal %q, want %q", got, c.signal)
			}
			if c.profile.Header == "" && c.profile.Name == "" {
				p.sameEachTime(t, "Idempotency-Key")
			}
		})
	}
}

func repeat(n int, f answerFunc) (all []answerFunc) {
	for range n {
		all = append(all, f)
	}
	return all
}

// A key in the query goes along when the server redirects to a URL without one.
// Seen to fail with putQuery taken out of redirect, and with either of its conditions.
func TestTheKeyFollowsARedirect(t *testing.T) {
	for _, c := range []struct{ body, location, to string }{
		{"{}", "/v2/charges", "/v2/charges?ClientToken=k1"},
		{"{}", "/v2/charges?a=b", "/v2/charges?a=b&ClientToken=k1"},
		{"{}", "/v2/charges?ClientToken=k1", "/v2/charges?ClientToken=k1"},
		{`{"ClientToken":"k1"}`, "/v2/charges", "/v2/charges"},
	} {
		withBody := func(r *http.Request) *http.Request {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(c.body)), int64(len(c.body))
			return withKey("k1")(r)
		}
		p := play(t, httpclient.Options{Profile: httpkey.AWS()}, withBody, reply(307, "Location: "+c.location), lost,
			reply(201))
		if p.status != 201 || len(p.sent) != 3 || p.sent[1].url != "https://bank.example"+c.to ||
			p.sent[2].url != p.sent[1].url {
			t.Errorf("%+v: status %d, %v, sent %+v", c, p.status, p.err, p.sent)
		}
	}
}

// Seen to fail with nameLocation taken out: http.Client went to /a/done.
func TestARedirectAfterAnother(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("POST /a/charge", http.RedirectHandler("/b/charge", http.StatusTemporaryRedirect))
	mux.HandleFunc("POST /b/charge", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "done") // http.Redirect would write the whole path
		w.WriteHeader(http.StatusSeeOther)
	})
	mux.HandleFunc("GET /b/done", func(w http.ResponseWriter, r *http.Request) {})
	server := httptest.NewServer(mux)
	defer server.Close()
	caller := http.Client{Transport: newTransport(t, httpclient.Options{Base: server.Client().Transport})}
	response, err := caller.Do(chargeAt(t.Context(), server.URL+"/a/charge"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("status %d of %s", response.StatusCode, response.Request.URL)
	}
}

// A 303 is the answer: the operation has ended, whatever becomes of the page that it names. Seen to fail with
// CheckRedirect left out of New, and with afterRedirect returning err.
func TestARedirectIsTheAnswer(t *testing.T) {
	charges := 0
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", func(w http.ResponseWriter, _ *http.Request) {
		charges++
		w.Header().Set("Location", "/charges/1")
		w.WriteHeader(http.StatusSeeOther)
	})
	mux.HandleFunc("GET /charges/1", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.Handle("GET /moved", http.RedirectHandler("/there", http.StatusFound))
	mux.HandleFunc("GET /there", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(mux)
	defer server.Close()
	journal := openJournal(t, filepath.Join(t.TempDir(), "journal"))
	o := httpclient.Options{Options: client.Options{Journal: journal}}
	caller := httpclient.New(o)
	response, err := caller.Do(t.Context(), chargeAt(t.Context(), server.URL+"/charges"))
	if err != nil || response.StatusCode != http.StatusSeeOther || response.Header.Get("Location") != "/charges/1" {
		t.Fatalf("Client.Do = %v, %v", response, err)
	}
	response.Body.Close()
	plain := http.Client{Transport: newTransport(t, o)}
	_, err = plain.Do(chargeAt(t.Context(), server.URL+"/charges"))
	var ended *client.NotReplayableError
	if !errors.As(err, &ended) || ended.Status != http.StatusSeeOther || ended.Header.Get("Location") != "/charges/1" {
		t.Errorf("http.Client.Do = %v", err)
	}
	if all, err := journal.Entries(t.Context()); len(all) != 0 || err != nil || charges != 2 {
		t.Errorf("%d entries are left, %v, after %d charges", len(all), err, charges)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/moved", nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err = caller.Do(t.Context(), request); err != nil || response.Request.URL.Path != "/there" {
		t.Errorf("without a key: %v, %v", response, err)
	}
}

// A refused credential is renewed once, for the same key.
// Seen to fail with "refreshed" taken out of the evidence: it asked for a new credential over and over.
func TestUnauthorizedIsRefreshedOnce(t *testing.T) {
	for _, c := range []struct {
		answers []answerFunc
		status  int
		sent    []string
	}{
		{[]answerFunc{reply(401), reply(201)}, 201, []string{"old", "new"}},
		{[]answerFunc{reply(401), reply(503), reply(201)}, 201, []string{"old", "new", "new"}},
		{[]answerFunc{reply(401)}, 401, []string{"old", "new"}},
	} {
		token := "old"
		p := play(t, httpclient.Options{
			AuthorizeFunc: func(r *http.Request, credential string, refused bool) error {
				if credential != "till-3" {
					t.Errorf("credential %q", credential)
				}
				if refused {
					token = "new"
				}
				r.Header.Set("Authorization", token)
				return nil
			},
		}, func(r *http.Request) *http.Request {
			return r.WithContext(client.WithCredential(r.Context(), "till-3"))
		}, c.answers...)
		var sent []string
		for _, s := range p.sent {
			sent = append(sent, s.header.Get("Authorization"))
		}
		if p.status != c.status || strings.Join(sent, " ") != strings.Join(c.sent, " ") {
			t.Errorf("status %d, %v, sent with %v, want %d and %v", p.status, p.err, sent, c.status, c.sent)
		}
		p.sameEachTime(t, "Idempotency-Key")
	}
}

func TestNothingIsSentWithoutACredential(t *testing.T) {
	locked := errors.New("vault is locked")
	for opened := range 2 { // so often the vault opens
		p := play(t, httpclient.Options{
			AuthorizeFunc: func(*http.Request, string, bool) error {
				if opened--; opened < 0 {
					return locked
				}
				return nil
			},
		}, nil, lost, reply(201))
		if unknown := opened < 0 && len(p.sent) > 0; !errors.Is(p.err, locked) ||
			errors.Is(p.err, client.ErrOutcomeUnknown) != unknown {
			t.Errorf("%v, sent %d times", p.err, len(p.sent))
		}
	}
}

// A caller that has asked for the address of the status gets it. Seen to fail with Prefer not looked at.
func TestTheStatusIsTheAnswerThatWasAskedFor(t *testing.T) {
	p := play(t, httpclient.Options{}, func(r *http.Request) *http.Request {
		r.Header.Set("Prefer", "respond-async, wait=1")
		return r
	}, reply(202, "Idempotency-Status: in-flight", `{"state":"pending","status":"/s/1"}`), reply(201))
	if p.status != 202 || p.err != nil || len(p.sent) != 1 {
		t.Errorf("%d, %v after %d requests", p.status, p.err, len(p.sent))
	}
}

// The page has a row for each signal.
func TestSignalsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/client.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range httpclient.SignalNames() {
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("docs/client.md has no row for %s", name)
		}
	}
}
