package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// observedKit is a proxy all of whose requests are observed.
type observedKit struct {
	*kit
	seen *httpsafe.Observation
}

func newObservedKit(t *testing.T, upstream string, changes ...change) *observedKit {
	k := &observedKit{}
	k.kit = newKit(t, upstream, append([]change{func(s *setup) {
		s.store = memstore.New(memstore.Options{})
		k.seen = httpsafe.NewObservation(retrysafe.New(s.store, retrysafe.Options{}), httpsafe.ObservationOptions{})
		s.options.Observation, s.options.Default.Observed = k.seen, true
	}}, changes...)...)
	t.Cleanup(func() { _ = k.seen.Shutdown(context.Background()) })
	return k
}

// counted waits until so many requests are counted, and returns what they are.
func (k *observedKit) counted(requests int64) map[httpsafe.Observed]int64 {
	k.t.Helper()
	for late := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if c := k.seen.Counts(); len(c) == 1 && c[0].Requests() == requests {
			return c[0].Observed
		}
		if time.Now().After(late) {
			k.t.Fatalf("counted %v, want %d requests", k.seen.Counts(), requests)
		}
	}
}

// tap is a listener that keeps what its connections receive.
type tap struct {
	net.Listener
	mu       sync.Mutex
	received bytes.Buffer
}

type tappedConn struct {
	net.Conn
	tap *tap
}

func (t *tap) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	return &tappedConn{c, t}, err
}

func (c *tappedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	c.tap.received.Write(p[:n])
	return n, err
}

// take returns what was received, and forgets it.
func (t *tap) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.received.String()
	t.received.Reset()
	return text
}

var changing = regexp.MustCompile(`(Date: |127\.0\.0\.1:)[^\r]*`)

// rawSend sends a request with a key, and returns what comes until the connection is closed.
func rawSend(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil && !strings.Contains(err.Error(), "reset") { // by a server that left some of the body unread
		t.Fatal(err)
	}
	head := string(answer[:min(1<<10, len(answer))]) // all that changes; three megabytes would take seconds
	return changing.ReplaceAllString(head, "$1") + string(answer[len(head):])
}

// TestObservedRoutesChangeNoByte: client and upstream get the same bytes, also on a retry, as over a route that is not
// guarded.
//
// Seen to fail with Status taken out of holder, and with guarded called in the place of observed.
func TestObservedRoutesChangeNoByte(t *testing.T) {
	five := "Content-Length: 5\r\n\r\nhello"
	for _, c := range []struct {
		name, method, rest string
		serve              http.HandlerFunc
	}{
		{"content length", "POST", five, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }},
		{"no body", "POST", "\r\n", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }},
		{"head", "HEAD", "\r\n", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "7") }},
		{
			"chunked with trailers", "POST",
			"Transfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n5\r\nhello\r\n0\r\nSum: 5\r\n\r\n",
			func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				w.Header().Set("Trailer", "Sum")
				fmt.Fprintf(w, "%s %v %v", body, err, r.Trailer)
				w.Header().Set("Sum", "5")
			},
		},
		{"flushes", "POST", five, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, "data: x\n\n")
			http.NewResponseController(w).Flush() // once: how many pieces the proxy reads at a time depends on the time
		}},
		{"interim answers", "POST", five, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Link", "</a>")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
		}},
		{"large answer", "POST", five, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Length", fmt.Sprint(3<<20)) // without which the chunks depend on the time
			io.WriteString(w, strings.Repeat("x", 3<<20))
		}},
		{"answer before the body", "POST", "Content-Length: 400000\r\n\r\nhello", func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no", http.StatusForbidden)
		}},
		{"body stalls", "POST", "Content-Length: 400000\r\n\r\nhello", func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
		}},
		{"no answer", "POST", five, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"headers of attempts", "POST", "Retrysafe-Lease: v1.x\r\n" + five, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Header)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := httptest.NewUnstartedServer(c.serve)
			tapped := &tap{Listener: up.Listener}
			up.Listener = tapped
			up.Start()
			defer up.Close()
			route := func(s *setup) {
				s.options.Default.UpstreamKey, s.options.Default.HTTP.Required = "Upstream-Key", true
				s.options.Upstream.PreserveHost = true
				if c.name == "body stalls" {
					s.options.Default.BodyTimeout = time.Second
				}
			}
			plain := newKit(t, up.URL, route, func(s *setup) { s.options.Default.Unguarded = true })
			observed := newObservedKit(t, up.URL, route)
			request := c.method + " /payments?x=%zz HTTP/1.1\r\nHost: api.example.com\r\nIdempotency-Key: k\r\n" +
				"Connection: close\r\n" + c.rest
			want := rawSend(t, plain.server.Listener.Addr().String(), request)
			sent := tapped.take()
			if !strings.HasPrefix(want, "HTTP/1.1") || sent == "" {
				t.Fatalf("without observing, the client gets %q and the upstream %q", want, sent)
			}
			for range 2 {
				if got := rawSend(t, observed.server.Listener.Addr().String(), request); got != want {
					t.Errorf("the client gets %.500q, want %.500q", got, want)
				}
				if got := tapped.take(); c.name != "answer before the body" && got != sent {
					t.Errorf("the upstream gets %q, want %q", got, sent)
				}
			}
			if c.method == "POST" {
				observed.counted(2)
			}
		})
	}
}

// TestObservedRoutesCount: what the proxy knows of the upstream decides what a retry would have got.
//
// Seen to fail with Ambiguous taken out of answerUnknown, and with saysNothingHappened taken out of modify.
func TestObservedRoutesCount(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("X-Answer") {
		case "none":
			panic(http.ErrAbortHandler)
		case "released":
			w.Header().Set("Idempotency-Status", "released")
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	k := newObservedKit(t, up.URL)
	k.post("/a", "x", "once")
	k.post("/a", "x", "twice")
	k.counted(2)
	k.post("/a", "x", "twice")
	k.post("/a", "y", "twice")
	k.send("POST", "/a", "x")
	got := k.counted(5)
	for o, n := range map[httpsafe.Observed]int64{
		httpsafe.ObservedFirst: 2, httpsafe.ObservedRetry: 1, httpsafe.ObservedMismatch: 1, httpsafe.ObservedNoKey: 1,
	} {
		want(t, o.String(), got[o], n)
	}
	want(t, "requests to the upstream", up.count(), 5)
	k.send("POST", "/a", "x", "Idempotency-Key", "free", "X-Answer", "released")
	want(t, "freed", k.counted(6)[httpsafe.ObservedFreed], 1)
	for n := range int64(2) {
		k.send("POST", "/a", "x", "Idempotency-Key", "lost", "X-Answer", "none")
		k.counted(7 + n)
	}
	want(t, "unknown", k.counted(8)[httpsafe.ObservedUnknown], 1)
	k = newObservedKit(t, "http://127.0.0.1:1")
	for n := range int64(2) {
		k.post("/a", "", "unreachable")
		k.counted(1 + n)
	}
	k.post("/a", "x", "unreachable") // whose body is not read
	want(t, "freed because nothing was sent", k.counted(3)[httpsafe.ObservedFreed], 2)
}

// TestObservedButEnforcedForSome: the requests of some callers are guarded, those of others, and of unknown ones, observed.
//
// Seen to fail with enforceFor taken out of enforces.
func TestObservedButEnforcedForSome(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "paid") })
	k := newObservedKit(t, up.URL, func(s *setup) {
		s.scope = httpsafe.ScopeHeader("Tenant")
		s.options.Default.EnforceFor = func(caller string) bool { return caller == "acme" }
	})
	for _, tenant := range []string{"acme", "globex"} {
		for range 3 {
			a := k.send("POST", "/a", "x", "Idempotency-Key", "k", "Tenant", tenant)
			want(t, tenant+"'s answer", a.body, "paid")
		}
	}
	want(t, "an unknown caller's answer", k.post("/a", "x", "k").StatusCode, http.StatusOK)
	want(t, "requests to the upstream", up.count(), 1+3+1)
	want(t, "refused", k.counted(4)[httpsafe.ObservedRefused], 1)
}

// TestObservedNeedsAnObservation: a route that could not be counted is an error of the program.
func TestObservedNeedsAnObservation(t *testing.T) {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	_, err := proxy.New(guard, httpsafe.ScopeNone(), proxy.Options{
		Upstream: proxy.Upstream{URL: mustURL("http://127.0.0.1:1")}, Default: proxy.Route{Observed: true},
	})
	if err == nil || !strings.Contains(err.Error(), "needs Options.Observation") {
		t.Errorf("got %v", err)
	}
}
