package httpsafe_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// signedHere accepts requests whose header Signature says what their body is.
func signedHere(r *http.Request, body []byte) error {
	if r.Header.Get("Signature") != string(body) {
		return &httpsafe.SignatureError{Header: "Signature", Detail: "It does not fit the body."}
	}
	return nil
}

func newVerifyKit(t *testing.T) *kit {
	k := newKit(t)
	k.options.VerifyFunc = signedHere
	return k
}

// Nothing is claimed, run or replayed for a request that is not verified, with a key or without. Its key is free.
//
// Seen to fail with isRefusedUnverified taken out of serve, with VerifyFunc taken out of the condition of
// middleware.ServeHTTP (requests without a key were not verified), and with isRefusedUnverified after findKey.
func TestVerify(t *testing.T) {
	k := newVerifyKit(t)
	claims := 0
	k.store.beforeClaim = func() { claims++ }
	forged := header("Signature", "18")
	p := k.post("k", forged).wantProblem(401, httpsafe.SignatureInvalid)
	if p["header"] != "Signature" || p["detail"] != "It does not fit the body. Nothing was run." || p["executed"] != "no" {
		t.Errorf("got %v", p)
	}
	k.post("k").wantHeader("WWW-Authenticate", "Webhook-Signature").wantProblem(401, httpsafe.SignatureInvalid)
	k.post("", forged).wantProblem(401, httpsafe.SignatureInvalid)
	k.post("a malformed key, "+strings.Repeat("k", 300), forged).wantProblem(401, httpsafe.SignatureInvalid)
	k.post("k", forged, header("Caller")).wantProblem(401, httpsafe.SignatureInvalid) // and not scope-unresolved
	k.post("k", forged, header("Prefer", "respond-async")).wantProblem(401, httpsafe.SignatureInvalid)
	k.wantRuns(0)
	if claims != 0 {
		t.Errorf("%d claims for requests that were not verified", claims)
	}

	signed := header("Signature", "17")
	first := k.post("k", signed)
	first.want(201).wantBody(`{"paid":17}`)
	k.post("k", signed).wantReplayOf(first)
	k.post("k", forged).wantProblem(401, httpsafe.SignatureInvalid)
	k.post("k", header("Signature", "18"), body("18")).wantProblem(422, httpsafe.KeyReused)
	k.wantRuns(1)
	k.post("", signed).want(201).wantBody(`{"paid":17}`) // it can be read again
	k.post("", header("Signature", ""), body("")).want(201).wantBody(`{"paid":}`)
	k.wantRuns(3)
	k.post("", method("GET")).want(201) // which is not guarded
	k.post("k", method("PUT")).want(201)
	k.wantRuns(5)
}

// A key that is required, or in the body, or that has a profile's header beside it, is looked at after the signature.
func TestVerifyComesBeforeTheKey(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*httpsafe.Options)
		signed httpsafe.Slug // what a signed request without a key gets
	}{
		"required":  {func(o *httpsafe.Options) { o.Required = true }, httpsafe.KeyMissing},
		"in a body": {func(o *httpsafe.Options) { o.KeySource = httpsafe.KeyInBody{Pointer: "/id"}; o.Required = true }, httpsafe.KeyMissing},
		"made of the body": {
			func(o *httpsafe.Options) { o.KeySource = httpsafe.NaturalKey{Fields: []string{"/id"}} }, httpsafe.KeyMalformed,
		},
		"streamed": {func(o *httpsafe.Options) { o.Fingerprint, o.Required = httpsafe.FingerprintNone(), true }, httpsafe.KeyMissing},
	} {
		t.Run(name, func(t *testing.T) {
			k := newVerifyKit(t)
			c.change(&k.options)
			k.post("").wantProblem(401, httpsafe.SignatureInvalid)
			k.post("", header("Signature", "17")).wantProblem(400, c.signed)
			k.wantRuns(0)
		})
	}
}

// The header Repeatability-First-Sent needs a key beside it, also on a request that is verified; without both it passes.
// Seen to fail with hasFirstSent taken out of findHeaderKey, and with checkFirstSent called without a key.
func TestVerifyKeepsTheRulesOfTheProfile(t *testing.T) {
	k := newVerifyKit(t)
	k.options.Profile = httpsafe.Repeatability()
	k.post("", header("Signature", "17"), header("Repeatability-First-Sent", "Thu, 01 Jan 2026 00:00:00 GMT")).want(400)
	k.wantRuns(0)
	k.post("", header("Signature", "17")).want(201)
}

// The body that is verified is bounded, in length and in memory. Seen to fail with the problem of spool ignored in
// isRefusedUnverified.
func TestVerifyIsBounded(t *testing.T) {
	k, b := newBudgetKit(t, 10_000)
	k.options.VerifyFunc, k.options.MaxRequestBody = signedHere, 50_000
	k.post("", body(strings.Repeat("1", 50_001))).wantProblem(413, httpsafe.BodyTooLarge)
	k.post("", func(r *http.Request) { body(strings.Repeat("1", 50_001))(r); r.ContentLength = -1 }).want(503)
	k.post("", body(strings.Repeat("1", 20_000))).want(503)
	k.post("", body(strings.Repeat("1", 5_000))).wantProblem(401, httpsafe.SignatureInvalid)
	if b.holds() != 0 {
		t.Errorf("%d bytes are still held", b.holds())
	}
	k.post("", func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(strings.NewReader("1"), brokenBody{})) }).want(400)
	k.wantRuns(0)
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// unavailable is an error that answers by itself.
type unavailable struct{ error }

func (unavailable) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// The text of any error is not for the sender. Seen to fail with the text of err as the detail.
func TestErrorsOfVerifyFunc(t *testing.T) {
	k := newVerifyKit(t)
	var err error
	k.options.VerifyFunc = func(*http.Request, []byte) error { return err }
	err = errors.New("vault at 10.0.0.1 says s3cret")
	a := k.post("k")
	a.wantProblem(401, httpsafe.SignatureInvalid)
	if strings.Contains(a.body, "s3cret") || strings.Contains(a.body, "10.0.0.1") {
		t.Errorf("the error is shown: %s", a.body)
	}
	err = errors.Join(errors.New("s3cret"), unavailable{err})
	k.post("k").want(503).wantHeader("Retry-After", "1").wantBody("")
	k.wantRuns(0)
}

// A refusal is written in the words of the profile.
func TestUnverifiedInTheWordsOfTheProfile(t *testing.T) {
	for _, profile := range []httpsafe.Profile{httpsafe.Square(), httpsafe.PayPal(), httpsafe.JSONRPC()} {
		k := newVerifyKit(t)
		k.options.Profile = profile
		a := k.post("", body(`{"id":7,"jsonrpc":"2.0","idempotency_key":"k"}`)).want(401)
		if word := map[string]string{"square": "AUTHENTICATION_ERROR", "paypal": "AUTHENTICATION_FAILURE", "jsonrpc": `"id":7`}[profile.Name]; !strings.Contains(a.body, word) {
			t.Errorf("%s: want %s in %s", profile.Name, word, a.body)
		}
	}
}

// Observed requests are served and counted. Seen to fail with VerifyFunc taken out of mayHaveKey, and of look.
func TestObserveCountsWhatIsNotVerified(t *testing.T) {
	k := observe(t, httpsafe.Options{VerifyFunc: signedHere}, httpsafe.ObservationOptions{})
	for _, r := range []func() int{
		func() int { return k.post("k").Code },
		func() int { return k.post("").Code },
		func() int { return k.post("k", header("Signature", "17")).Code },
		func() int { return k.post("k", header("Signature", "17")).Code },
		func() int { return k.post("", header("Signature", "17")).Code },
	} {
		if got := r(); got != 200 {
			t.Errorf("an observed request got %d", got)
		}
	}
	k.want(1, counted{
		httpsafe.ObservedRefused: 2, httpsafe.ObservedFirst: 1, httpsafe.ObservedRetry: 1, httpsafe.ObservedNoKey: 1,
	})
}

// The rules of a route say that requests are signed.
func TestRulesSaySigned(t *testing.T) {
	if rules := (httpsafe.Options{VerifyFunc: signedHere}).Rules("/", retrysafe.Policy{}); !rules.Signed {
		t.Error("the rules do not say that requests are signed")
	}
	if (httpsafe.Options{}).Rules("/", retrysafe.Policy{}).Signed {
		t.Error("the rules say that requests are signed")
	}
}
