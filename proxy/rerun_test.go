package proxy_test

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// The answer to the first request is lost, then the route changes. The request is sent again only if the API gets the
// key with it that it got at first.
//
// Seen to fail with rerunIfSentAlike taken out, and with the version taken out of published: all are sent again.
func TestARerunCarriesTheKeyOfTheFirstRequest(t *testing.T) {
	none := httpsafe.Options{Fingerprint: httpsafe.FingerprintNone()}
	for _, c := range []struct {
		name          string
		before, after proxy.Route
		rerun         bool
	}{
		{"unchanged", proxy.Route{UpstreamKey: "X-Key"}, proxy.Route{UpstreamKey: "X-Key"}, true},
		{"in other letters", proxy.Route{UpstreamKey: "X-Key"}, proxy.Route{UpstreamKey: "x-key"}, true},
		{"never one", proxy.Route{}, proxy.Route{}, true},
		{"turned on", proxy.Route{}, proxy.Route{UpstreamKey: "X-Key"}, false},
		{"turned on, nothing compared", proxy.Route{HTTP: none}, proxy.Route{HTTP: none, UpstreamKey: "X-Key"}, false},
		{"turned off", proxy.Route{UpstreamKey: "X-Key"}, proxy.Route{}, false},
		{"renamed", proxy.Route{UpstreamKey: "X-Key"}, proxy.Route{UpstreamKey: "X-Other"}, false},
		{
			"a version of one's own",
			proxy.Route{UpstreamKey: "X-Key", HTTP: httpsafe.Options{FingerprintVersion: "v3"}},
			proxy.Route{UpstreamKey: "X-Key", HTTP: httpsafe.Options{FingerprintVersion: "v3"}},
			true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var answers atomic.Bool
			url, asked := raw(t, func(c net.Conn, _ *http.Request) {
				if answers.Load() {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npaid")
				}
			})
			store := memstore.New(memstore.Options{})
			with := func(route proxy.Route, onAbandoned retrysafe.AbandonedPolicy) change {
				return func(s *setup) {
					s.options.Default, s.store = route, store
					s.guard.Policy.OnAbandoned = onAbandoned
				}
			}
			want(t, "first", newKit(t, url, with(c.before, retrysafe.Refuse())).post("/", "a=1", "k").StatusCode, 502)
			answers.Store(true)
			later := newKit(t, url, with(c.after, retrysafe.Rerun()))
			got := later.post("/", "a=1", "k")
			if c.rerun {
				want(t, "body", got.body, "paid")
				want(t, "asked", asked.Load(), 2)
				return
			}
			want(t, "problem", got.problem(t).Code, "outcome-unknown")
			want(t, "event", later.nextEvent().Kind, retrysafe.WorkUnknown)
			want(t, "asked", asked.Load(), 1)
		})
	}
}
