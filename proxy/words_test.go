package proxy_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
)

// TestWordsOfTheProxysOwnAnswers: whose fault it is, whether a retry helps, and whether the request was accepted, in
// the words of profiles that say so. Seen to fail with words for the middleware's refusals only: "invalid request" of
// an unknown outcome, which stripe-node sent nine times, and "accepted" of a request that was never sent.
func TestWordsOfTheProxysOwnAnswers(t *testing.T) {
	broken, _ := raw(t, func(net.Conn, *http.Request) {}) // takes the request, and ends the connection
	for _, c := range []struct {
		profile     httpsafe.Profile
		field       string
		unreachable string // the field, where nothing was sent
		failed      string // and where the outcome is unknown
		word        string // of the body
	}{
		{httpsafe.Stripe(), "Stripe-Should-Retry", "true", "false", `"type":"api_error"`},
		{httpsafe.Adyen(), "Transient-Error", "true", "false", `"errorType":"internal"`},
		{httpsafe.Repeatability(), "Repeatability-Result", "rejected", "accepted", `"error"`},
	} {
		for upstream, want := range map[string]string{"http://127.0.0.1:1": c.unreachable, broken: c.failed} {
			k := newKit(t, upstream, func(s *setup) {
				c.profile.FirstSent, c.profile.KeySyntax = "", httpkey.Syntax{Form: httpkey.Bare}
				s.options.Default.HTTP.Profile = c.profile.WithHeader("Idempotency-Key")
			})
			for range 2 { // a retry after an unknown outcome is refused; the other is sent again
				got := k.post("/", "a=1", "k")
				if field := got.Header.Get(c.field); field != want || got.StatusCode < 500 {
					t.Errorf("%s, %d: %s is %q, want %q", c.profile.Name, got.StatusCode, c.field, field, want)
				}
				if !strings.Contains(got.body, c.word) {
					t.Errorf("%s, %d: %s", c.profile.Name, got.StatusCode, got.body)
				}
			}
		}
	}
}

// A profile may have a word for each refusal of the proxy. Seen to fail with upstream-fenced taken out of Slugs.
func TestProxySlugsAreCasesOfWords(t *testing.T) {
	words := map[string]string{"": ""}
	for _, p := range proxy.Problems() {
		words[string(p.Slug)] = "word"
	}
	profile := httpsafe.IETF()
	profile.Refusal = httpsafe.RefusalBody{Body: `["{code}"]`, Words: map[string]map[string]string{"code": words}}
	if err := (httpsafe.Options{Profile: profile}).Validate(); err != nil {
		t.Error(err)
	}
}
