package envoy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/extproc"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/testing/pages"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

const page = "../../docs/envoy.md"

// block returns the file that the page shows.
func block(t testing.TB, name string) string {
	t.Helper()
	blocks, err := pages.Read(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if b.File == name {
			return b.Text
		}
	}
	t.Fatalf("%s has no block with file=%s", page, name)
	return ""
}

// configOf returns the page's configuration with other addresses, and with patience for a busy machine.
func configOf(t testing.TB, service, server string) *Config {
	t.Helper()
	c, err := Parse(block(t, "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c.Service, c.Server, c.Filter.MessageTimeout = service, server, durationpb.New(time.Minute)
	return c
}

// front is a Player before a service, with the proxy's handler as its ext_proc server, in one process.
type front struct {
	testing.TB
	*Player
	service *httptest.Server
	server  *http.Server
	logged  logBuffer
}

type logBuffer struct{ atomic.Pointer[string] }

// Write keeps the last line.
func (b *logBuffer) Write(p []byte) (int, error) {
	line := string(p)
	b.Store(&line)
	return len(p), nil
}

func (b *logBuffer) last() string {
	if line := b.Load(); line != nil {
		return *line
	}
	return ""
}

// settings change what a front starts with.
type settings struct {
	filter func(*Config)
	proxy  func(*proxy.Options)
	server func(*extproc.Options)
}

func newFront(t testing.TB, service http.Handler, s settings) *front {
	t.Helper()
	f := &front{TB: t, service: httptest.NewServer(service)}
	t.Cleanup(f.service.Close)
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	o := proxy.Options{
		Transport: extproc.Transport{},
		Upstream:  proxy.Upstream{URL: &url.URL{Scheme: "http", Host: "envoy"}, PreserveHost: true, TrustForwarded: true},
	}
	if s.proxy != nil {
		s.proxy(&o)
	}
	handler, err := proxy.New(guard, httpsafe.ScopeCredential(), o)
	if err != nil {
		t.Fatal(err)
	}
	options := extproc.Options{ErrorLog: log.New(&f.logged, "", 0)}
	if s.server != nil {
		s.server(&options)
	}
	address := f.serve(extproc.New(handler, options))
	c := configOf(t, strings.TrimPrefix(f.service.URL, "http://"), address)
	if s.filter != nil {
		s.filter(c)
	}
	f.Player = Start(t, c)
	return f
}

// serve listens as the command does.
func (f *front) serve(h http.Handler) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	f.server = &http.Server{Handler: h, Protocols: new(http.Protocols), ErrorLog: log.New(io.Discard, "", 0)}
	f.server.Protocols.SetHTTP1(true)
	f.server.Protocols.SetUnencryptedHTTP2(true)
	go f.server.Serve(l)
	f.Cleanup(func() { f.server.Close() })
	return l.Addr().String()
}

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

// String returns the status and the body, or the code of an error.
func (a answer) String() string {
	var problem struct{ Code string }
	if json.Unmarshal([]byte(a.body), &problem) == nil && problem.Code != "" {
		return fmt.Sprint(a.status, " ", problem.Code)
	}
	return strings.TrimSpace(fmt.Sprint(a.status, " ", a.body))
}

var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// send sends a request, with a key unless it is empty.
func (f *front) send(ctx context.Context, method, path, key string, body io.Reader, header ...string) (a answer) {
	f.Helper()
	r, err := http.NewRequestWithContext(ctx, method, f.URL+path, body)
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer buyer")
	if key != "" {
		r.Header.Set("Idempotency-Key", `"`+key+`"`)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res, err := client.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(text), err}
}

// charge sends a charge, and compares the answer.
func (f *front) charge(key, body, want string) answer {
	f.Helper()
	a := f.send(f.Context(), http.MethodPost, "/charges", key, strings.NewReader(body))
	if a.String() != want {
		f.Errorf("key %q, body %q: got %q, want %q; log: %s", key, body, a, want, f.logged.last())
	}
	return a
}

// shop counts charges.
type shop struct {
	charges atomic.Int64
	last    atomic.Pointer[http.Request]
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.last.Store(r)
	if r.Method != http.MethodPost {
		fmt.Fprint(w, r.Method)
		return
	}
	w.Header()["X-Twice"] = []string{"1", "2"}
	w.Header().Set("Retrysafe-Lease", "no client may see one")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, "charge ", s.charges.Add(1))
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// soon waits until is returns true.
func soon(t testing.TB, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
