//go:build unix

package recipe

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/probe"
)

// open opens a recipe with more lines in a directory.
func open(t *testing.T, dir, address, more string) (probe.Recipe, error) {
	t.Helper()
	f, err := Parse(filepath.Join(dir, "payments.yaml"), []byte(least+more), variablesOf)
	if err != nil {
		t.Fatal(err)
	}
	target, _ := url.Parse(address)
	r, done, err := f.Open(t.Context(), target)
	t.Cleanup(func() { done() })
	return r, err
}

func mustOpen(t *testing.T, dir, address, more string) probe.Recipe {
	t.Helper()
	r, err := open(t, dir, address, more)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func counted(t *testing.T, r probe.Recipe) int64 {
	t.Helper()
	n, err := r.Count.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCountByGet(t *testing.T) {
	for _, c := range []struct {
		name, body, pointer string
		want                int64 // -1: an error
		says                string
	}{
		{"a number", `{"n": 3}`, "/n", 3, ""},
		{"a number in a text", `{"n": "3"}`, "/n", 3, ""},
		{"a list", `{"a": [{"list": [1, 2]}]}`, "/a/0/list", 2, ""},
		{"a body that is a number", "7\n", "", 7, ""},
		{"a body that is a list", "[]", "", 0, ""},
		{"a line for each", "{\"id\": 1}\n{\"id\": 2}\n", "", 2, ""},
		{"one line", "{\"id\": 1}\n", "", 1, ""},
		{"no line", "", "", 0, ""},
		{"a name with a slash", `{"a/b": 4}`, "/a~1b", 4, ""},
		{"nothing there", `{"n": 3}`, "/m", -1, "nothing at /m"},
		{"beyond the list", `[1]`, "/1", -1, "nothing at /1"},
		{"into a number", `3`, "/1", -1, "nothing at /1"},
		{"a broken number", `{"n": 3.5}`, "/n", -1, "not a whole number"},
		{"an object", `{"n": {}}`, "/n", -1, "neither a number nor a list"},
		{"lines and a pointer", "1\n2\n", "/n", -1, "2 JSON values"},
		{"no JSON", "<html>", "/n", -1, "not JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := numberIn([]byte(c.body), c.pointer)
			if c.want < 0 {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("got %d, %v; want %q", got, err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want(t, "count", got, c.want)
		})
	}
}

// The count is asked for as caller A, under the target's path, and redirects are not followed.
func TestCountByGetAsksTheTarget(t *testing.T) {
	var asked *http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		if r.URL.Path == "/v1/away" {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
			return
		}
		io.WriteString(w, "5")
	}))
	t.Cleanup(s.Close)
	r := mustOpen(t, ".", s.URL+"/v1",
		"credentials: {a: {X-API-Key: '${TOKEN_A}'}}\ncount: {get: {path: '/n?x=y', headers: {X-Team: b}}}\n")
	want(t, "count", counted(t, r), 5)
	want(t, "request", asked.URL.String()+asked.Header.Get("X-API-Key")+asked.Header.Get("X-Team"), "/v1/n?x=yt-ab")
	r = mustOpen(t, ".", s.URL+"/v1", "count: {get: {path: /away}}\n")
	if _, err := r.Count.Count(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "302 Found, a redirect to http://192.0.2.1/") {
		t.Errorf("got %v, want the status, and where to", err)
	}
}

// Seen to fail with 429 not waited out.
func TestCountByGetWaitsOutARateLimit(t *testing.T) {
	left := 2
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if left--; left >= 0 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		io.WriteString(w, "5")
	}))
	t.Cleanup(s.Close)
	const count = "count: {get: {path: /n}}\n"
	want(t, "count", counted(t, mustOpen(t, ".", s.URL, count)), 5)
	left = 1000
	_, err := mustOpen(t, ".", s.URL, count+"limits: {wait: 150ms}\n").Count.Count(t.Context())
	if err == nil || !strings.Contains(err.Error(), "try a lower limits.rate") {
		t.Errorf("got %v, want what to do", err)
	}
}

func TestCountBySQLite(t *testing.T) {
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.Exec("create table payments (amount integer)")
	sum := mustOpen(t, dir, "http://127.0.0.1:1",
		"count: {sql: {url: shop.db, query: select sum(amount) from payments}}\n")
	want(t, "a sum of nothing", counted(t, sum), 0)
	r := mustOpen(t, dir, "http://127.0.0.1:1",
		"count: {sql: {url: 'sqlite:shop.db', query: select count(*) from payments}}\n")
	db.Exec("insert into payments values (3), (4)")
	want(t, "count", counted(t, r), 2)
	want(t, "sum", counted(t, sum), 7)
	for query, says := range map[string]string{
		"select * from nothing":               "nothing",
		"select 'x'":                          "one whole number",
		"delete from payments returning 1":    "readonly",
		"select count(*), 1 from payments":    "one whole number",
		"select amount from payments limit 0": "no rows",
	} {
		_, err := open(t, dir, "http://127.0.0.1:1", fmt.Sprintf("count: {sql: {url: shop.db, query: %q}}\n", query))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", query, err, says)
		}
	}
	want(t, "count afterwards", counted(t, r), 2)
}

// What cannot be reached is said without the password.
func TestADatabaseThatIsNotThere(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	_, err := (&sqlSettings{url: "postgres://u:s3cret@127.0.0.1:1/shop", query: "select 1"}).open(ctx, ".")
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}

// Seen to fail with the identifiers forgotten.
func TestWebhooks(t *testing.T) {
	port := servers.ReservePort(t)
	address := fmt.Sprintf("http://127.0.0.1:%d/hook", port)
	more := fmt.Sprintf("count: {webhook: {port: %d, delivery_id: /event/id}}\n", port)
	r := mustOpen(t, ".", "http://127.0.0.1:1", more)
	send := func(body string) {
		answer, err := http.Post(address, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		want(t, "status", answer.StatusCode, http.StatusNoContent)
	}
	send(`{"event": {"id": 1}}`)
	send(`{"event": {"id": 2}}`)
	send(`{"event": {"id": 1}}`) // delivered again
	want(t, "effects", counted(t, r), 2)
	counter, _ := r.Count.(probe.RatedCounter)
	want(t, "evidence", counter.Evidence(), probe.ByArrival)
	answer, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "status of a GET", answer.StatusCode, http.StatusMethodNotAllowed)
	want(t, "effects", counted(t, r), 2)
	if _, err := open(t, ".", "http://127.0.0.1:1", more); err == nil || !strings.Contains(err.Error(), "another port") {
		t.Errorf("a port that is in use: got %v", err)
	}
	send(`{"event": {}}`)
	if _, err := r.Count.Count(t.Context()); err == nil || !strings.Contains(err.Error(), "/event/id") {
		t.Errorf("a webhook without identifier: got %v", err)
	}
}

// Commands run beside the recipe, are told nothing by a shell, and end in time.
func TestHooks(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	dir := t.TempDir()
	r := mustOpen(t, dir, s.URL, "hooks: {restart: [touch, 'a; b'], start_store: ['true'], "+
		"stop_store: [sh, -c, 'echo no store >&2; exit 3']}\n")
	slow := mustOpen(t, dir, s.URL, "hooks: {stop_store: ['true'], start_store: [sleep, '60'], timeout: 100ms}\n")
	if err := r.Hooks.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a; b")); err != nil {
		t.Error(err)
	}
	for name, says := range map[string][]string{
		"stop":  {"exit status 3", "no store"},
		"start": {"longer than 100ms", "sleep 60"},
	} {
		hook := map[string]func(context.Context) error{"stop": r.Hooks.StopStore, "start": slow.Hooks.StartStore}[name]
		err := hook(t.Context())
		if err == nil {
			t.Fatalf("%s does not fail", name)
		}
		wantText(t, name, err.Error(), says...)
	}
	if mustOpen(t, dir, s.URL, "").Hooks.Restart != nil {
		t.Error("a recipe without hooks has one")
	}
}

// A server that the command leaves behind is no reason to wait, and may go on writing.
func TestARestartLeavesAServerBehind(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	r := mustOpen(t, t.TempDir(), s.URL, "hooks: {restart: [sh, -c, 'sleep 5 &'], timeout: 10s}\n")
	began := time.Now()
	if err := r.Hooks.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A restart is over when the target accepts connections again.
func TestARestartThatDoesNotComeBack(t *testing.T) {
	r := mustOpen(t, t.TempDir(), "http://127.0.0.1:1",
		"hooks: {restart: ['true'], timeout: 1s}\n")
	err := r.Hooks.Restart(t.Context())
	if err == nil {
		t.Fatal("it is taken for done")
	}
	wantText(t, "error", err.Error(), "no server listens")
}
