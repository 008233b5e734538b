package httpsafe_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// exchangeCase is a handler, and what a client sends it after the header fields that all requests have.
type exchangeCase struct {
	name    string
	send    string // the rest of the header, an empty line, and the body
	handler http.HandlerFunc
}

const fiveBytes = "Content-Length: 5\r\n\r\nhello"

// exchangeCases are all of what net/http lets a handler do with a connection.
var exchangeCases = []exchangeCase{
	{"content length", fiveBytes, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v %d", body, err, r.ContentLength)
	}},
	{"no body", "\r\n", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Body == http.NoBody, r.ContentLength)
	}},
	{
		"chunked with trailers",
		"Transfer-Encoding: chunked\r\nTrailer: Digest\r\n\r\n5\r\nhello\r\n0\r\nDigest: abc\r\nSurprise: yes\r\n\r\n",
		func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %v %v", body, err, r.Trailer)
		},
	},
	{
		"trailers not announced", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nSurprise: yes\r\n\r\n",
		func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %v %v", body, err, r.Trailer)
		},
	},
	{"answer in chunks", fiveBytes, func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "part %d;", i)
			w.(http.Flusher).Flush()
			fmt.Fprint(w, http.NewResponseController(w).Flush())
		}
	}},
	{"answer with trailers", fiveBytes, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Sum")
		io.WriteString(w, "body")
		w.Header().Set("Sum", "4")
		w.Header().Set(http.TrailerPrefix+"Late", "yes")
	}},
	{"interim answers", fiveBytes, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		w.WriteHeader(http.StatusAccepted)
		w.WriteHeader(http.StatusTeapot) // superfluous
	}},
	{"copied from a reader", fiveBytes, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, io.LimitReader(zeros{}, 1500)) // through io.ReaderFrom it is sent in chunks
	}},
	{"copied with a length", fiveBytes, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "70000")
		io.Copy(w, io.LimitReader(zeros{}, 70000))
	}},
	{"too much for its length", fiveBytes, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2")
		_, err := io.WriteString(w, "abc")
		w.Header().Set("Err", fmt.Sprint(err))
	}},
	{"no content", fiveBytes, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }},
	{"nothing written", fiveBytes, func(w http.ResponseWriter, r *http.Request) {}},
	{
		"expects to be asked, and is", "Expect: 100-continue\r\n" + fiveBytes,
		func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %v", body, err)
		},
	},
	{
		"expects to be asked, and is not", "Expect: 100-continue\r\n" + fiveBytes,
		func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) },
	},
	{
		"large body left unread", "Content-Length: 400000\r\n\r\n" + strings.Repeat("x", 1000),
		func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) },
	},
	{
		"half of the body read", "Content-Length: 1000\r\n\r\n" + strings.Repeat("x", 1000),
		func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadFull(r.Body, make([]byte, 500))
			fmt.Fprint(w, err, r.Body.Close())
		},
	},
	{"full duplex", fiveBytes, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		fmt.Fprint(w, control.EnableFullDuplex(), control.SetReadDeadline(time.Now().Add(time.Minute)), control.Flush())
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", body, err)
	}},
	{"connection taken over", fiveBytes, func(w http.ResponseWriter, r *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		fmt.Fprint(buf, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: mine\r\n\r\nraw bytes")
		buf.Flush()
	}},
	{"optional interfaces", fiveBytes, func(w http.ResponseWriter, r *http.Request) {
		_, flushes := w.(http.Flusher)
		_, hijacks := w.(http.Hijacker)
		_, reads := w.(io.ReaderFrom)
		_, notifies := w.(interface{ CloseNotify() <-chan bool })
		_, writes := w.(io.StringWriter)
		_, pushes := w.(http.Pusher)
		fmt.Fprint(w, flushes, hijacks, reads, notifies, writes, pushes)
	}},
	{
		"form", "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=b",
		func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.FormValue("a"), r.Form) },
	},
	{"cut off", fiveBytes, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}},
	{"panic", fiveBytes, func(w http.ResponseWriter, r *http.Request) { panic("of the handler") }},
	{"release without a guard", fiveBytes, func(w http.ResponseWriter, r *http.Request) {
		_, guarded := retrysafe.AttemptFrom(r.Context())
		fmt.Fprint(w, guarded, r.URL, r.Host, len(r.Header))
	}},
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestObserveChangesNoByte sends each request, and its retry, to a handler that is observed and to the same without, and
// compares all that comes over the connection.
//
// Seen to fail with n.like taken out of statusOf, with Trailer taken out of observedBody.Read, and with FlushError made to
// return nil.
func TestObserveChangesNoByte(t *testing.T) {
	for _, c := range exchangeCases {
		t.Run(c.name, func(t *testing.T) {
			guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
			seen := httpsafe.NewObservation(guard, httpsafe.ObservationOptions{})
			observed := httpsafe.Observe(seen, httpsafe.ScopeNone(), httpsafe.Options{Route: "all"})
			want := rawExchange(t, c.handler, c.send)
			if !strings.HasPrefix(want, "HTTP/1.1") && c.name != "panic" {
				t.Fatalf("the handler alone answers %q", want)
			}
			server := rawServer(t, observed(c.handler))
			for range 2 {
				if got := rawSend(t, server, c.send); got != want {
					t.Errorf("observed:\n%q\nwithout:\n%q", got, want)
				}
			}
			eventually(t, func() bool { // both requests are counted
				return len(seen.Counts()) == 1 && seen.Counts()[0].Requests() == 2
			})
			if err := seen.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

func rawServer(t *testing.T, h http.Handler) string {
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func rawExchange(t *testing.T, h http.Handler, rest string) string {
	return rawSend(t, rawServer(t, h), rest)
}

var date = regexp.MustCompile(`Date: [^\r]*`)

// rawSend sends a request with a key, and returns what comes until the connection is closed.
func rawSend(t *testing.T, address, rest string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	head := "POST /payments?a=%zz HTTP/1.1\r\nHost: api.example.com\r\nIdempotency-Key: k\r\nConnection: close\r\n"
	if _, err := io.WriteString(conn, head+rest); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil && !strings.Contains(err.Error(), "reset") { // by a server that left some of the body unread
		t.Fatal(err)
	}
	return date.ReplaceAllString(string(answer), "Date:")
}
