package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// stolen is what a client sends, and an upstream answers, under every name that a framework may read as a lease.
const stolen = "v1.stolen"

var leaseNames = []string{
	"Retrysafe-Lease", "Retrysafe-Attempt", "retrysafe-lease", "Retrysafe_Lease", "RETRYSAFE_ATTEMPT", "Retrysafe-lease", "Retrysafe.Lease",
}

// No client can send a lease to an upstream, or get one from it: as a header, as a trailer, in an interim response, over
// HTTP/1 and HTTP/2, with a key or without, on a route of any kind.
//
// Seen to fail, in some of the cases each, with withoutLease and the first removeLease taken out of newHolder, with
// removeLease taken out of Read, WriteHeader, end and modify, and with "_" told from "-".
func TestNobodyCanPassALease(t *testing.T) {
	for _, version := range []string{"HTTP/1", "HTTP/2"} {
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			leak(w.Header())
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Trailer", "Retrysafe-Lease, Sum")
			if r.URL.Query().Has("stream") {
				w.Header().Set("Content-Type", "text/event-stream")
			}
			io.WriteString(w, "data: 1\n\n")
			w.(http.Flusher).Flush()
			w.Header().Set("Sum", "5")
			for _, name := range leaseNames {
				w.Header().Set(http.TrailerPrefix+name, stolen)
			}
		})
		k := newKit(t, up.URL, func(s *setup) {
			s.options.Default.Policy.MaxResult = 1 << 20
			if version == "HTTP/2" {
				s.options.Upstream.URL = mustURL("h2c" + strings.TrimPrefix(up.URL, "http"))
				s.server = func(server *httptest.Server) {
					server.Config.Protocols = new(http.Protocols)
					server.Config.Protocols.SetUnencryptedHTTP2(true)
				}
			}
			s.options.Routes = []proxy.Route{
				{Pattern: "/open", Unguarded: true},
				{Pattern: "/complete", HTTP: httpsafe.Options{CompletedElsewhere: true}},
				{Pattern: "/stream", Stream: true},
			}
		})
		if version == "HTTP/2" {
			transport := &http.Transport{Protocols: new(http.Protocols)}
			transport.Protocols.SetUnencryptedHTTP2(true)
			k.client = &http.Client{Transport: transport}
			t.Cleanup(transport.CloseIdleConnections)
		}
		for _, path := range []string{"/", "/open", "/complete", "/stream", "/?stream", "/complete?stream"} {
			for _, key := range []string{"", "k" + path} {
				for _, method := range []string{"POST", "GET"} {
					t.Run(version+method+path+" "+key, func(t *testing.T) { k.wantNoLease(t, up, method, path, key) })
				}
			}
		}
	}
}

// leak sets every header that could be read as a lease.
func leak(h http.Header) {
	for _, name := range leaseNames {
		h[name] = []string{stolen}
	}
}

func wantNone(t *testing.T, where string, h http.Header, except string) {
	t.Helper()
	for name, values := range h {
		like := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, http.TrailerPrefix), "_", "-"))
		is := like == "retrysafe-lease" || like == "retrysafe-attempt"
		if is && (except == "" || fmt.Sprint(values) == "["+stolen+"]") {
			t.Errorf("%s has %s: %q", where, name, values)
		}
		if name == "Trailer" && strings.Contains(strings.ToLower(strings.Join(values, ",")), "retrysafe") {
			t.Errorf("%s announces %q", where, values)
		}
	}
}

func (k *kit) wantNoLease(t *testing.T, up *upstream, method, path, key string) {
	var body io.Reader = http.NoBody
	if method == "POST" {
		body = struct{ io.Reader }{strings.NewReader("a=1")} // in chunks, so that there are trailers
	}
	r, err := http.NewRequest(method, k.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	leak(r.Header)
	if strings.Contains(t.Name(), "HTTP/1") {
		r.Header.Set("Connection", "Retrysafe-Lease")
	}
	r.Header.Set("Te", "trailers")
	if method == "POST" {
		r.Trailer = http.Header{"Sum": {"3"}}
		leak(r.Trailer)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	trace := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		wantNone(t, "an interim response", http.Header(h), "")
		return nil
	}}
	before := up.count()
	res := k.do(r.WithContext(httptrace.WithClientTrace(t.Context(), trace)))
	wantNone(t, "the answer", res.Header, "")
	wantNone(t, "the answer's trailer", res.Trailer, "")
	if up.count() == before {
		t.Fatal("the upstream was not asked")
	}
	seen := up.last()
	except := ""
	if strings.HasPrefix(path, "/complete") && key != "" && method == "POST" {
		except = "its own"
		if token := seen.Header.Get("Retrysafe-Lease"); !strings.HasPrefix(token, "v1.") || len(token) != 57 {
			t.Errorf("the upstream got the lease %q", token)
		}
		want(t, "attempt", seen.Header.Get("Retrysafe-Attempt"), "1")
	}
	wantNone(t, "the request", seen.Header, except)
	wantNone(t, "the request's trailer", seen.Trailer, "")
	if method == "POST" {
		want(t, "the client's own trailer", seen.Trailer.Get("Sum"), "3")
	}
}

// A replay does not ask the upstream, and has no lease either.
func TestAReplayHasNoLease(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retrysafe-Lease", r.Header.Get("Retrysafe-Lease"))
		w.WriteHeader(400)
	})
	k := newKit(t, up.URL, func(s *setup) { s.options.Default.HTTP.CompletedElsewhere = true })
	for range 2 {
		got := k.post("/", "a=1", "k")
		want(t, "status", got.StatusCode, 400)
		want(t, "lease", got.Header.Get("Retrysafe-Lease"), "")
	}
	want(t, "asked", up.count(), 1)
}

// The header of a request that belongs to other handlers is not changed. Seen to fail with Clone taken out of
// withoutLease.
func TestTheCallersHeaderIsNotChanged(t *testing.T) {
	up := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	k := newKit(t, up.URL, func(s *setup) {
		s.wrap = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r)
				if r.Header.Get("Retrysafe-Lease") != stolen {
					t.Error("the header was removed from the request of an outer handler")
				}
			})
		}
	})
	k.send("POST", "/", "", "Retrysafe-Lease", stolen)
	want(t, "lease", up.last().Header.Get("Retrysafe-Lease"), "")
}

// AuthURL gets the header of the request, and no lease in it.
func TestAuthGetsNoLease(t *testing.T) {
	up := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	auth := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	k := newKit(t, up.URL, func(s *setup) { s.options.AuthURL = mustURL(auth.URL) })
	k.send("POST", "/", "", "Idempotency-Key", "k", "Retrysafe-Lease", stolen)
	want(t, "asked", auth.count(), 1)
	want(t, "lease", auth.last().Header.Get("Retrysafe-Lease"), "")
}

// Seen to fail with each case taken out of checkCompletedElsewhere, and with checkHeaders taken out of newRouteHandler.
func TestWhatARouteCompletedElsewhereCannotHave(t *testing.T) {
	elsewhere := httpsafe.Options{CompletedElsewhere: true}
	for says, route := range map[string]proxy.Route{
		"Stream":                     {HTTP: elsewhere, Stream: true},
		"FailOpen":                   {HTTP: elsewhere, Policy: retrysafe.Policy{OnStoreError: retrysafe.FailOpen}},
		"Retrysafe-Lease":            {UpstreamKey: "Retrysafe-Lease"},
		"retrysafe-attempt":          {AttemptHeader: "retrysafe-attempt"},
		"Attempts is 2: it must not": {HTTP: httpsafe.Options{Attempts: 2}},
	} {
		route.Pattern = "POST /x"
		guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
		_, err := proxy.New(guard, httpsafe.ScopeNone(), proxy.Options{
			Upstream: proxy.Upstream{URL: mustURL("http://localhost:1")}, Routes: []proxy.Route{route},
		})
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), `route "POST /x"`) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// An attempt without an answer is given up, and the client is told that nothing happened; or the request is sent again,
// with its body and another lease.
//
// Seen to fail with fences taken out of failed (502, unknown), with Ambiguous replaced by Release for an upstream that
// cannot be reached (it is not asked again), and with begin not called for each attempt (the log has an error for a
// request that has succeeded).
func TestAnAttemptWithoutAnAnswerIsGivenUp(t *testing.T) {
	for _, attempts := range []int{1, 3} {
		for name, fault := range map[string]func(http.ResponseWriter){
			"closed before the answer": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
			"closed in the answer": func(w http.ResponseWriter) {
				w.Header().Set("Content-Length", "100")
				io.WriteString(w, "half")
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			},
			"closed in a large answer": func(w http.ResponseWriter) {
				w.Header().Set("Content-Length", "3000000")
				w.Write(bytes.Repeat([]byte("half"), 500_000))
				panic(http.ErrAbortHandler)
			},
			"closed in an event stream": func(w http.ResponseWriter) {
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, "data: 1\n\n")
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			},
		} {
			t.Run(fmt.Sprint(name, attempts), func(t *testing.T) {
				var mu sync.Mutex
				leases := map[string]bool{}
				up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					leases[r.Header.Get("Retrysafe-Lease")] = true
					n := len(leases)
					mu.Unlock()
					if n < 3 {
						fault(w)
					}
					w.WriteHeader(400) // which needs no completion
				})
				k := newKit(t, up.URL, func(s *setup) {
					s.options.Default.HTTP = httpsafe.Options{CompletedElsewhere: true, Attempts: attempts}
				})
				got := k.post("/", "a=1", "k")
				if attempts == 3 {
					want(t, "status", got.StatusCode, 400)
					want(t, "asked", up.count(), 3)
					want(t, "bodies", strings.Join(up.body, " "), "a=1 a=1 a=1")
					e := k.nextEvent()
					want(t, "event", e.Kind, retrysafe.WorkFailed)
					want(t, "error", e.Err, nil)
					return
				}
				want(t, "status", got.StatusCode, 503)
				want(t, "problem", got.problem(t), problem{"upstream-fenced", "no", true})
				want(t, "Retry-After", got.Header.Get("Retry-After"), "1")
				want(t, "Idempotency-Status", got.Header.Get("Idempotency-Status"), "released")
				want(t, "event", k.nextEvent().Kind, retrysafe.WorkReleased)
				want(t, "asked", up.count(), 1)
			})
		}
	}
	t.Run("not reached the second time", func(t *testing.T) { // seen to fail with the watch of the first kept
		up := newUpstream(t, nil)
		k := newKit(t, up.URL, func(s *setup) {
			s.options.Default.HTTP = httpsafe.Options{CompletedElsewhere: true, Attempts: 2}
		})
		up.serve = func(http.ResponseWriter, *http.Request) {
			up.Listener.Close()
			panic(http.ErrAbortHandler)
		}
		got := k.post("/", "a=1", "k")
		want(t, "problem", got.problem(t), problem{"upstream-unreachable", "no", true})
		want(t, "asked", up.count(), 1)
	})
	t.Run("not reached", func(t *testing.T) {
		var started atomic.Int64
		k := newKit(t, "http://127.0.0.1:1", func(s *setup) {
			s.options.Default.HTTP = httpsafe.Options{CompletedElsewhere: true, Attempts: 2}
			s.guard.Observer = retrysafe.ObserverFunc(func(_ context.Context, e retrysafe.Event) {
				if e.Kind == retrysafe.AttemptStarted {
					started.Add(1)
				}
			})
		})
		got := k.post("/", "a=1", "k")
		want(t, "problem", got.problem(t), problem{"upstream-unreachable", "no", true})
		want(t, "Idempotency-Status", got.Header.Get("Idempotency-Status"), "released")
		want(t, "attempts", started.Load(), 2)
	})
}

// What an earlier configuration has sent without a lease is not sent again; what was sent with one is, whatever
// upstream_key said. Seen to fail with the case CompletedElsewhere taken out of version.
func TestARerunCarriesALeaseIfTheFirstRequestDid(t *testing.T) {
	ordinary, complete := proxy.Route{}, proxy.Route{HTTP: httpsafe.Options{CompletedElsewhere: true}}
	withKey := complete
	withKey.UpstreamKey = "X-Key"
	for _, c := range []struct {
		name          string
		before, after proxy.Route
		rerun         bool
	}{
		{"completed upstream", complete, complete, true},
		{"completed upstream, then with a key", complete, withKey, true},
		{"turned on", ordinary, complete, false},
		{"turned off", complete, ordinary, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var answers atomic.Bool
			url, asked := raw(t, func(c net.Conn, _ *http.Request) {
				if answers.Load() {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npaid")
				}
			})
			store := memstore.New(memstore.Options{})
			with := func(route proxy.Route) change {
				return func(s *setup) {
					s.options.Default, s.store = route, store
					s.options.Default.HTTP.Ambiguous = retrysafe.AmbiguousUnknown
					s.guard.Policy.OnAbandoned = retrysafe.Rerun()
				}
			}
			want(t, "first", newKit(t, url, with(c.before)).post("/", "a=1", "k").StatusCode, 502)
			answers.Store(true)
			got := newKit(t, url, with(c.after)).post("/", "a=1", "k")
			want(t, "rerun", got.body == "paid", c.rerun)
			want(t, "asked", asked.Load() == 2, c.rerun)
		})
	}
}
