package httpclient_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// The client asks again where that helps, and nowhere else.
// Seen to fail with the row outcome-resumes taken out of signals.
func TestTheClientGoesOnWithAnAbandonedKey(t *testing.T) {
	for _, policy := range []retrysafe.AbandonedPolicy{retrysafe.Refuse(), retrysafe.Rerun()} {
		guard := retrysafe.New(memstore.New(memstore.Options{}),
			retrysafe.Options{SweepEvery: -1, Policy: retrysafe.Policy{OnAbandoned: policy}})
		runs := 0
		guarded := httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{Ambiguous: retrysafe.AmbiguousUnknown})
		server := httptest.NewServer(guarded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if runs++; runs == 1 {
				w.WriteHeader(http.StatusBadGateway)
			}
		})))
		t.Cleanup(server.Close)
		response, err := newTransport(t, httpclient.Options{Options: client.Options{Backoff: 1}}).
			RoundTrip(chargeAt(t.Context(), server.URL))
		if policy.String() == "refuse" {
			wantUnknown(t, err, client.GaveUpAnswer)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK || runs != 2 {
			t.Errorf("status %d after %d attempts", response.StatusCode, runs)
		}
	}
}
