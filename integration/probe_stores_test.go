package integration

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/probe"
)

// waiting are the cases that wait for seconds and do not depend on the store: a client that does not read, and the Date
// and Age of an answer.
func waiting() []string { return []string{"C12", "H01", "H03"} }

// On every store the proxy passes the probe: two proxies, in fact, which share the store and get the requests in turn,
// so that nothing can be decided in the memory of one. In make test: one profile, without the cases of waiting.
//
// Seen to fail with a store of its own for each of the two (B02 and others).
func TestSoakProbeFindsNothingOnAnyStore(t *testing.T) {
	profiles, skip := httpsafe.Profiles()[:1], waiting()
	if n := soak.Times(t, 1); n > 1 {
		profiles, skip = httpsafe.Profiles()[:min(n, len(httpsafe.Profiles()))], nil
	}
	for name, o := range stores() {
		for _, profile := range profiles {
			t.Run(name+"/"+profile.Name, func(t *testing.T) {
				t.Parallel()
				api := new(orders)
				recipe := api.recipe(t, behindTwoProxies(t, o.open(t), api, profile), profile)
				recipe.Variants.Large.Path = "/orders/huge"
				playAll(t, name, recipe, probe.Options{Skip: skip})
			})
		}
	}
}

// behindTwoProxies returns the address of two proxies in front of an API, which get the requests in turn.
func behindTwoProxies(t *testing.T, s retrysafe.Store, api http.Handler, profile httpsafe.Profile) string {
	t.Helper()
	options := httpsafe.Options{Profile: profile}
	var both [2]http.Handler
	for i := range both {
		both[i] = newProxyWith(t, newProbedGuardOn(t, s, profile), api, options, lateAfter, nil)
	}
	var n atomic.Uint64
	return serve(t, authenticated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		both[n.Add(1)%2].ServeHTTP(w, r)
	})))
}
