package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func askingAt(url string) change {
	return func(s *setup) { s.options.AuthURL = mustURL(url) }
}

// Seen to fail with the line of serveKeyed taken out that asks: the revoked credential gets the replay.
func TestARevokedCredentialGetsNoReplay(t *testing.T) {
	var revoked atomic.Bool
	auth := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if revoked.Load() {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			w.Header().Set("Connection", "X-Hop")
			w.Header().Set("X-Hop", "1")
			w.WriteHeader(401)
			io.WriteString(w, "revoked")
		}
	})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "paid") })
	k := newKit(t, up.URL, askingAt(auth.URL+"/check?for=proxy"))
	want(t, "first", k.post("/payments?a=b", "a=1", "k").body, "paid")
	want(t, "event", k.nextEvent().Kind, retrysafe.WorkSucceeded)
	want(t, "replay", k.post("/payments?a=b", "a=1", "k").Header.Get("Idempotent-Replayed"), "true")
	want(t, "event", k.nextEvent().Kind, retrysafe.AnswerReplayed)
	revoked.Store(true)
	got := k.post("/payments?a=b", "a=1", "k")
	want(t, "status", got.StatusCode, 401)
	want(t, "body", got.body, "revoked")
	want(t, "WWW-Authenticate", got.Header.Get("WWW-Authenticate"), `Bearer error="invalid_token"`)
	want(t, "X-Hop", got.Header.Get("X-Hop"), "")
	report := k.nextEvent()
	want(t, "reported status", report.Status, 401)
	want(t, "reported reason", fmt.Sprint(report.Err), "AuthURL answered 401")
	want(t, "a new key", k.post("/payments", "a=1", "k2").StatusCode, 401)
	want(t, "asked the upstream", up.count(), 1)
	want(t, "asked for credentials", auth.count(), 4)
}

// A client that half-closes its connection after a request without a body has not left: AuthURL is asked all the same.
//
// Seen to fail with the request's context in ask: 503, each time that the client tried.
func TestAHalfClosedClientIsAuthorized(t *testing.T) {
	left := make(chan struct{})
	auth := newUpstream(t, func(http.ResponseWriter, *http.Request) { wait(t, left, "the end of the request's context") })
	up := newUpstream(t, ok)
	k := newKit(t, up.URL, askingAt(auth.URL), func(s *setup) {
		s.wrap = func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				context.AfterFunc(r.Context(), func() { close(left) })
				h.ServeHTTP(w, r)
			})
		}
	})
	connection, err := net.Dial("tcp", strings.TrimPrefix(k.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	io.WriteString(connection, "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n")
	connection.(*net.TCPConn).CloseWrite()
	answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "status", answer.StatusCode, 200)
}

// Seen to fail with each statement after the first taken out of question, and with removeImitations taken out of
// setForwarded.
func TestWhatTheAuthorizingServerIsAsked(t *testing.T) {
	auth := newUpstream(t, ok)
	up := newUpstream(t, ok)
	k := newKit(t, up.URL, askingAt(auth.URL+"/check?for=proxy"))
	k.send("POST", "/payments/%2e?a=b", "a=1", "Idempotency-Key", "k", "Authorization", "Bearer me", "Cookie", "s=1",
		"Content-Type", "text/plain", "Content-Digest", "sha-256=:x:", "If-Match", `"x"`, "Range", "bytes=0-1",
		"Connection", "X-Hop", "X-Hop", "1", "X-Forwarded-For", "6.6.6.6", "X-Forwarded-Method", "GET",
		"X-Forwarded-Uri", "/open", "X_Forwarded_Uri", "/open", "X-Forwarded_method", "GET", "X_Forwarded_For", "6.6.6.6",
		"X-Forwarded-Host", "evil", "User-Agent", "")
	q := auth.last()
	want(t, "request", q.Method+" "+q.RequestURI, "GET /check?for=proxy")
	want(t, "host", q.Host, strings.TrimPrefix(auth.URL, "http://"))
	want(t, "length", q.ContentLength, 0)
	for name, value := range map[string]string{
		"Authorization": "Bearer me", "Cookie": "s=1", "X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/payments/%2e?a=b",
		"X-Forwarded-Host": strings.TrimPrefix(k.URL, "http://"), "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http",
		"Content-Type": "", "Content-Length": "", "Content-Digest": "", "If-Match": "", "Range": "", "X-Hop": "",
		"User-Agent": "",
	} {
		want(t, name, q.Header.Get(name), value)
	}
	for name := range q.Header {
		want(t, "underscore in "+name, strings.Contains(name, "_"), false)
	}
}

// Nothing is run or replayed unless the authorizing server answers 2xx.
//
// Seen to fail with the timeout taken out (it hangs), with CheckRedirect taken out (the redirect is followed to a
// 200), and with 500 taken for a yes.
func TestWithoutAWordOfTheAuthorizingServerNothingRuns(t *testing.T) {
	status := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/yes" {
				return
			}
			w.Header().Set("Location", "/yes")
			w.WriteHeader(status)
		}
	}
	for _, c := range []struct {
		name string
		url  func(t *testing.T) string
		want int
	}{
		{"it is down", func(*testing.T) string { return "http://127.0.0.1:1" }, 503},
		{"it fails", func(t *testing.T) string { return newUpstream(t, status(500)).URL }, 503},
		{"it redirects", func(t *testing.T) string { return newUpstream(t, status(302)).URL }, 503},
		{"it knows nothing", func(t *testing.T) string { return newUpstream(t, status(404)).URL }, 503},
		{"it hangs", func(t *testing.T) string {
			return newUpstream(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }).URL
		}, 503},
		{"it breaks off", func(t *testing.T) string {
			return newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "10")
				w.WriteHeader(401)
				panic(http.ErrAbortHandler)
			}).URL
		}, 503},
		{"it forbids", func(t *testing.T) string { return newUpstream(t, status(403)).URL }, 403},
		{"it forbids at length", func(t *testing.T) string {
			return newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(403)
				io.WriteString(w, strings.Repeat("no ", 100<<10))
			}).URL
		}, 403},
		{"it agrees", func(t *testing.T) string { return newUpstream(t, status(204)).URL }, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newUpstream(t, ok)
			store := memstore.New(memstore.Options{})
			same := func(s *setup) { s.store = store }
			newKit(t, up.URL, same).post("/", "a=1", "done")
			k := newKit(t, up.URL, same, askingAt(c.url(t)), func(s *setup) {
				if c.name == "it hangs" {
					s.wrap = func(p http.Handler) http.Handler { proxy.SetAuthTimeout(p, 20*time.Millisecond); return p }
				}
			})
			for key, asked := range map[string]int{"done": 1, "new": 2} {
				got := k.post("/", "a=1", key)
				want(t, "status", got.StatusCode, c.want)
				if c.want == 503 {
					want(t, "problem", got.problem(t), problem{"auth-unavailable", "no", true})
				}
				if c.want != 200 {
					asked = 1
				}
				want(t, "replayed", got.Header.Get("Idempotent-Replayed"),
					map[bool]string{true: "true"}[key == "done" && c.want == 200])
				if up.count() > asked+1 {
					t.Errorf("%s: the upstream was asked %d times", key, up.count())
				}
			}
			want(t, "asked", up.count(), map[bool]int{true: 2, false: 1}[c.want == 200])
		})
	}
}

// Requests without a key go to the upstream, which checks their credentials itself.
//
// Seen to fail with serveKeyed asking of every request that it gets (/strict), and of those with a header only
// (/natural), with Rules.MayHaveKey true for every POST, and with the page of the status not guarded (404 to a
// stranger).
func TestOnlyRequestsWithAKeyAreAskedAbout(t *testing.T) {
	up := newUpstream(t, ok)
	auth := newUpstream(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) })
	k := newKit(t, up.URL, askingAt(auth.URL), func(s *setup) {
		s.options.Routes = []proxy.Route{
			{Pattern: "/open/", Unguarded: true},
			{Pattern: "POST /strict", HTTP: httpsafe.Options{Required: true}},
			{Pattern: "POST /natural/{id}", HTTP: httpsafe.Options{KeySource: httpsafe.NaturalKey{PathValues: []string{"id"}}}},
			{Pattern: "POST /long", HTTP: httpsafe.Options{InFlightStatus: true}},
		}
	})
	for i, c := range []struct {
		method, path, key string
		status, asked     int
	}{
		{"POST", "/", "", 200, 0},
		{"GET", "/", "k", 200, 0},
		{"PUT", "/", "k", 200, 0},
		{"POST", "/open/x", "k", 200, 0},
		{"POST", "/strict", "", 400, 0},
		{"POST", "/", "k", 401, 1},
		{"POST", "/natural/1", "", 401, 1},
		{"GET", proxy.PolicyPath, "", 200, 0},
		{"GET", proxy.StatusPath + "/" + retrysafe.Key{ID: "k"}.Digest().String(), "", 401, 1},
	} {
		before := auth.count()
		headers := []string{"Idempotency-Key", c.key}
		if c.key == "" {
			headers = nil
		}
		name := fmt.Sprint(i, " ", c.method, " ", c.path)
		want(t, name, k.send(c.method, c.path, "", headers...).StatusCode, c.status)
		want(t, name+" asked", auth.count()-before, c.asked)
	}
}

// Seen to fail with the checks of scheme, user and fragment taken out of newAuthorizer, one at a time.
func TestBadAuthURLs(t *testing.T) {
	for _, bad := range []string{
		"auth/check", "ftp://auth", "http://", "http://me:secret@auth", "h2c://auth",
		"http://auth#x",
	} {
		_, err := proxy.New(retrysafe.New(nil, retrysafe.Options{}), httpsafe.ScopeNone(), proxy.Options{
			Upstream: proxy.Upstream{URL: mustURL("http://x")}, AuthURL: mustURL(bad),
		})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
