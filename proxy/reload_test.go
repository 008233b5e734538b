package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
)

// api answers with its name once it is told to go on; at once if hold is nil.
func api(t *testing.T, name string, began chan<- struct{}, hold <-chan struct{}) *url.URL {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if hold != nil {
			began <- struct{}{}
			<-hold
		}
		io.WriteString(w, name)
	}))
	t.Cleanup(s.Close)
	u, _ := url.Parse(s.URL)
	return u
}

// A request that has begun ends under the options that it began with; asynchronous work too, which nobody waits for. The
// next one gets the new options. Only then the old ones end, and they end once.
//
// Seen to fail with users.Add taken out of serveBounded (the work that is answered with 202), and with the last leave taken
// out of Reload.
func TestReloadLetsRequestsEnd(t *testing.T) {
	for name, headers := range map[string][]string{"in the foreground": nil, "answered with 202": {"Prefer", "respond-async"}} {
		t.Run(name, func(t *testing.T) {
			began, hold := make(chan struct{}, 1), make(chan struct{})
			async := func(o *proxy.Options) { o.Default.HTTP.RespondAsync = true }
			var p *proxy.Proxy
			k := newKit(t, api(t, "old", began, hold).String(), func(s *setup) {
				async(&s.options)
				s.started = func(made *proxy.Proxy) { p = made }
			})
			answered := make(chan answer, 1)
			go func() { answered <- k.send("POST", "/", "", append(headers, "Idempotency-Key", "held")...) }()
			wait(t, began, "the request to run")
			if headers != nil {
				want(t, "status", wait(t, answered, "the answer").StatusCode, http.StatusAccepted)
			}
			next := proxy.Options{Upstream: proxy.Upstream{URL: api(t, "new", nil, nil)}}
			async(&next)
			ended := make(chan struct{}, 10)
			if err := p.Reload(httpsafe.ScopeNone(), next, func() { ended <- struct{}{} }); err != nil {
				t.Fatal(err)
			}
			want(t, "the next request", k.send("POST", "/", "", "Idempotency-Key", "next").body, "new")
			want(t, "ended", len(ended), 0)
			close(hold)
			if headers == nil {
				want(t, "the first request", wait(t, answered, "the answer").body, "old")
			}
			wait(t, ended, "the old options to end")
			want(t, "its retry", k.send("POST", "/", "", "Idempotency-Key", "held").body, "old")
			want(t, "ended again", len(ended), 0)
		})
	}
}

// Options that cannot work change nothing.
//
// Seen to fail with leave called on the current generation before newGeneration's error is returned.
func TestReloadRefusesBadOptions(t *testing.T) {
	var p *proxy.Proxy
	k := newKit(t, api(t, "old", nil, nil).String(), func(s *setup) { s.started = func(made *proxy.Proxy) { p = made } })
	err := p.Reload(httpsafe.ScopeNone(), proxy.Options{
		Upstream: proxy.Upstream{URL: api(t, "new", nil, nil)}, Routes: []proxy.Route{{Pattern: "POST a b"}},
	}, func() { t.Error("the old options have ended") })
	if err == nil {
		t.Error("a pattern that cannot be read is accepted")
	}
	want(t, "answer", k.send("POST", "/", "", "Idempotency-Key", "k").body, "old")
}

// What callers have used before a reload counts afterwards, and new limits hold at once.
//
// Seen to fail with newAdmission for each generation, and without the call of limit in Reload.
func TestReloadKeepsCounting(t *testing.T) {
	var p *proxy.Proxy
	up := api(t, "done", nil, nil)
	options := func(keys int) proxy.Options {
		return proxy.Options{Upstream: proxy.Upstream{URL: up}, Limits: proxy.Limits{KeysPerCaller: keys}}
	}
	k := newKit(t, up.String(), func(s *setup) {
		s.scope, s.options.Limits = httpsafe.ScopeHeader("X-Caller"), options(20).Limits
		s.started = func(made *proxy.Proxy) { p = made }
	})
	use := func(key string) int {
		return k.send("POST", "/", "", "X-Caller", "alice", "Idempotency-Key", key).StatusCode
	}
	want(t, "first", use("1"), 200)
	want(t, "second", use("2"), 200)
	for i, c := range []struct{ keys, status int }{{20, 429}, {1000, 200}, {-1, 200}, {20, 429}} {
		if err := p.Reload(httpsafe.ScopeHeader("X-Caller"), options(c.keys), nil); err != nil {
			t.Fatal(err)
		}
		want(t, "after a reload", use(fmt.Sprint("after-", i)), c.status)
	}
}
