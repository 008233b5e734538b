package proxy_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// kit is a proxy in front of an upstream, both on real sockets.
type kit struct {
	t      *testing.T
	URL    string
	guard  *retrysafe.Guard
	client *http.Client
	server *httptest.Server
	mu     sync.Mutex
	events []proxy.Event
	more   chan struct{} // a report has come
}

type change func(*setup)

// setup is what changes can change.
type setup struct {
	options proxy.Options
	guard   retrysafe.Options
	store   retrysafe.Store
	scope   httpsafe.ScopeFunc
	wrap    func(http.Handler) http.Handler
	server  func(*httptest.Server)
	started func(*proxy.Proxy)
}

// newKit starts a proxy for the upstream at a URL.
func newKit(t *testing.T, upstream string, changes ...change) *kit {
	t.Helper()
	u, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{t: t, more: make(chan struct{}, 100)}
	s := setup{
		scope: httpsafe.ScopeNone(), store: memstore.New(memstore.Options{}),
		wrap: func(h http.Handler) http.Handler { return h },
	}
	s.options.Upstream.URL = u
	s.options.Observer = k
	for _, c := range changes {
		c(&s)
	}
	k.guard = retrysafe.New(s.store, s.guard)
	p, err := proxy.New(k.guard, s.scope, s.options)
	if err != nil {
		t.Fatal(err)
	}
	if s.started != nil {
		s.started(p)
	}
	k.server = httptest.NewUnstartedServer(s.wrap(p))
	if s.server != nil {
		s.server(k.server)
	}
	if k.server.URL == "" {
		k.server.Start()
	}
	k.URL, k.client = k.server.URL, k.server.Client()
	k.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() {
		k.server.Close()
		p.CloseIdleConnections()
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		if err := k.guard.Shutdown(ctx); err != nil {
			t.Errorf("guard: %v", err)
		}
	})
	return k
}

func (k *kit) Observe(_ context.Context, r proxy.Event) {
	if r.Begun {
		return
	}
	k.mu.Lock()
	k.events = append(k.events, r)
	k.mu.Unlock()
	k.more <- struct{}{}
}

// nextReport waits for a report.
func (k *kit) nextEvent() proxy.Event {
	k.t.Helper()
	wait(k.t, k.more, "a report")
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.events[0]
	k.events = k.events[1:]
	return r
}

// answer is a response that was read whole.
type answer struct {
	*http.Response
	body string
}

// send sends a request. headers are name, value, name, value.
func (k *kit) send(method, path, body string, headers ...string) answer {
	k.t.Helper()
	r, err := http.NewRequest(method, k.URL+path, strings.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return k.do(r)
}

func (k *kit) do(r *http.Request) answer {
	k.t.Helper()
	res, err := k.client.Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	return answer{res, string(body)}
}

func (k *kit) post(path, body, key string) answer {
	k.t.Helper()
	return k.send("POST", path, body, "Idempotency-Key", key)
}

// upstream serves a handler and counts what it is asked.
type upstream struct {
	*httptest.Server
	mu    sync.Mutex
	seen  []*http.Request
	body  []string
	serve http.HandlerFunc
}

func newUpstream(t *testing.T, serve http.HandlerFunc) *upstream {
	u := &upstream{serve: serve}
	u.Server = httptest.NewUnstartedServer(u)
	u.Config.Protocols = new(http.Protocols)
	u.Config.Protocols.SetHTTP1(true)
	u.Config.Protocols.SetUnencryptedHTTP2(true)
	u.Start()
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if r.Header.Get("Upgrade") == "" && r.Header.Get("X-Unread") == "" {
		body.ReadFrom(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body.Bytes()))
	}
	u.mu.Lock()
	u.seen, u.body = append(u.seen, r), append(u.body, body.String())
	u.mu.Unlock()
	u.serve(w, r)
}

func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.seen)
}

func (u *upstream) last() *http.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen[len(u.seen)-1]
}

// wait waits for a channel, but not for ever.
func wait[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("waited too long for %s", what)
		panic("unreachable")
	}
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func mustURL(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}
