package integration

import (
	"context"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
)

// locked is an API whose callers can be locked out. What knows credentials is the API, behind the proxy.
type locked struct {
	orders
	out atomic.Bool
}

func (l *locked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.out.Load() {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	authenticated(&l.orders).ServeHTTP(w, r)
}

// A proxy with AuthURL replays nothing to a caller whose credential was revoked. A proxy without it does, as
// documented, and the probe reports it.
func TestProbeRevokesACredential(t *testing.T) {
	t.Parallel()
	for name, asks := range map[string]bool{"with AuthURL": true, "without AuthURL": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, want := new(locked), probe.Fail
			var auth *url.URL
			if asks {
				auth, want = mustParse(t, serve(t, api)+"/orders"), probe.Pass
			}
			profile := httpsafe.IETF()
			recipe := api.recipe(t, serve(t, newProxy(t, api, httpsafe.Options{Profile: profile}, lateAfter, auth)), profile)
			recipe.Hooks = probe.Hooks{
				Revoke:  func(context.Context) error { api.out.Store(true); return nil },
				Restore: func(context.Context) error { api.out.Store(false); return nil },
			}
			report, err := cases.Run(t.Context(), recipe, probe.Options{Only: []string{"X09"}})
			if err != nil {
				t.Fatal(err)
			}
			if o, _ := report.Find("X09"); o.Verdict != want {
				t.Errorf("%s, want %s: %v\n%s", o.Verdict, want, o.Findings, timeline(o))
			}
		})
	}
}
