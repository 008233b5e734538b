//go:build unix

package inboxcmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }

// kit is a service behind a proxy with an inbox.
type kit struct {
	*testing.T
	store string
	args  []string // of the proxy
	proxy *clitest.Running
	// status is what the service answers with; 0: it cuts the connection.
	status atomic.Int64
	mu     sync.Mutex
	got    []string // bodies that the service got
}

// route is the pattern of the kit's route; another one has no inbox.
const route = "POST /hooks"

const rules = `
scope: credential
routes:
  POST /hooks:
    accept: inbox
    deliver: {order: /about, max_schedule: 24h, first_delay: 10ms, max_delay: 20ms}
`

// everywhere runs a test with a store in a SQLite file, which the proxy has open, and with one in PostgreSQL.
func everywhere(t *testing.T, test func(*kit)) {
	t.Helper()
	t.Parallel()
	for name, store := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "keys.db") },
		"postgres": clitest.Migrated,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &kit{T: t, store: store(t)}
			k.status.Store(http.StatusCreated)
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var body struct{ N string }
				_ = json.NewDecoder(r.Body).Decode(&body) // a test sends nothing else
				k.mu.Lock()
				k.got = append(k.got, body.N)
				k.mu.Unlock()
				status := int(k.status.Load())
				if status == 0 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(status)
				fmt.Fprintf(w, "answer to %s", body.N)
			}))
			t.Cleanup(service.Close)
			k.args = []string{"--upstream=" + service.URL, "--store=" + k.store, "--config=" + clitest.WriteFile(t, rules)}
			k.proxy = clitest.StartProxy(t, k.args...)
			test(k)
		})
	}
}

// run runs a command with the store.
func (k *kit) run(command string, args ...string) clitest.Result {
	k.Helper()
	return clitest.Run(k.T, append([]string{"inbox", command, "--store=" + k.store}, args...)...)
}

// must is run, for a command that has to succeed.
func (k *kit) must(command string, args ...string) string {
	k.Helper()
	got := k.run(command, args...)
	if got.Code != cli.ExitOK {
		k.Fatalf("inbox %s %v: exit code %d: %s%s", command, args, got.Code, got.Stdout, got.Stderr)
	}
	return got.Stdout
}

// refused checks that a command is refused.
func (k *kit) refused(code int, says, command string, args ...string) {
	k.Helper()
	got := k.run(command, args...)
	if got.Code != code || !strings.Contains(got.Stderr, says) {
		k.Errorf("inbox %s %v: exit code %d, %s; want %d, %q", command, args, got.Code, got.Stderr, code, says)
	}
}

// send sends a request through the proxy.
func (k *kit) send(key, body string, args ...string) clitest.Result {
	k.Helper()
	return k.sendTo(k.proxy.URL, key, body, args...)
}

func (k *kit) sendTo(proxy, key, body string, args ...string) clitest.Result {
	k.Helper()
	return clitest.Run(k.T, append([]string{
		"inbox", "send", "--url=" + proxy + "/hooks?token=s3cret", "--key=" + key, "--data=" + body,
		"--header=Authorization: Bearer me", "--header=X-Hook-Signature: v1=s3cret",
	}, args...)...)
}

// accepted sends a request, and returns the digest of its key.
func (k *kit) accepted(key, body string) string {
	k.Helper()
	got := k.send(key, body)
	if got.Code != cli.ExitOK {
		k.Fatalf("exit code %d: %s", got.Code, got.Stderr)
	}
	return path.Base(strings.TrimSpace(got.Stdout))
}

// row returns what list says of a request, whatever its state; nil: nothing.
func (k *kit) row(digest string) *requestJSON {
	k.Helper()
	for _, state := range []string{"undelivered", "delivered"} {
		for line := range strings.Lines(k.must("list", "--json", "--limit=0", "--state="+state)) {
			var r requestJSON
			clitest.Must(k.T, json.Unmarshal([]byte(line), &r))
			if r.Key == digest {
				return &r
			}
		}
	}
	return nil
}

// await waits until a request is in a state.
func (k *kit) await(digest, state string) {
	k.Helper()
	var last *requestJSON
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		if last = k.row(digest); last != nil && last.State == state {
			return
		}
	}
	k.Fatalf("the request does not become %s: %+v", state, last)
}

// awaitCalls waits until the service was called so often, and returns what it got.
func (k *kit) awaitCalls(n int) []string {
	k.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		k.mu.Lock()
		got := slices.Clone(k.got)
		k.mu.Unlock()
		if len(got) >= n {
			return got
		}
		if time.Now().After(late) {
			k.Fatalf("the service was called with %v, want %d calls", got, n)
		}
	}
}

// wantGot compares what the service was called with.
func (k *kit) wantGot(want ...string) {
	k.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	clitest.Want(k.T, "calls of the service", strings.Join(k.got, " "), strings.Join(want, " "))
}

// A request that the service has refused is called again only once its key is reopened, which needs a reason. Several need
// --yes.
//
// Seen to fail with Reopened never set in judge: the stored 422 was replayed, and the service not called; with d.DryRun not
// looked at in Redeliver; and with Resend taking the dead ones.
func TestRedeliver(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.status.Store(http.StatusUnprocessableEntity)
		first, second := k.accepted("one", `{"n": "a", "about": 1}`), k.accepted("two", `{"n": "b", "about": 2}`)
		k.await(first, "dead")
		k.await(second, "dead")
		clitest.WantText(t, "list", k.must("list"), "KEY", first, route, "dead", "the answer was 422", "2 requests\n")
		clitest.WantText(t, "another route", k.must("list", "--route=GET /other"), "no requests\n")
		clitest.WantText(t, "limit", k.must("list", "--limit=1"), "1 request, and there are more: see --limit")
		k.status.Store(http.StatusCreated)
		k.refused(cli.ExitRefused, "--reason", "redeliver", first)
		k.refused(cli.ExitRefused, "has ended with status 422", "redeliver", first, "--reason= ")
		clitest.WantText(t, "preview", k.must("redeliver", "--all", "--route="+route, "--reason=bug 17"),
			first+"  would be redelivered: its key would be reopened", "dry run", "--yes")
		clitest.WantText(t, "dry run", k.must("redeliver", first, "--reason=bug 17", "--dry-run"), "would be")
		k.await(first, "dead")
		clitest.WantText(t, "output", k.must("redeliver", first, "--reason=bug 17"), "redelivered: its key is reopened")
		k.await(first, "delivered")
		clitest.WantText(t, "trail", k.must("show", first), "bug 17", "succeeded")
		clitest.WantText(t, "the others", k.must("redeliver", "--all", "--route="+route, "--reason=bug 17", "--yes", "--json"),
			`"reopened":true`, second)
		k.await(second, "delivered")
		k.refused(cli.ExitRefused, "was delivered", "redeliver", first)
		clitest.WantText(t, "delivered", k.must("redeliver", k.proxy.URL+"/x/"+first, "--reason=lost by the service"), "reopened")
		clitest.Want(t, "the last calls", strings.Join(k.awaitCalls(5)[2:], " "), "a b a")
		k.refused(cli.ExitFailed, "never accepted", "redeliver", strings.Repeat("0", 32), "--reason=r")
	})
}

// A request whose outcome is unknown is decided before it is delivered again, and one of which a person has said that it
// was executed is not.
//
// Of several, one that needs a reason does not hold up the others.
//
// Seen to fail with the case of Abandoned, and with completedBy, taken out of judge, and with done not looked at for
// CodeInvalid in Bulk.Each.
func TestAnUnknownOutcomeIsDecidedFirst(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.status.Store(0)
		executed, not := k.accepted("one", `{"n": "a"}`), k.accepted("two", `{"n": "b", "about": 2}`)
		other := k.accepted("three", `{"n": "c", "about": 3}`)
		k.await(executed, "dead")
		k.await(not, "dead")
		k.await(other, "dead")
		k.status.Store(http.StatusCreated)
		k.refused(cli.ExitFailed, "retrysafe keys resolve", "redeliver", executed, "--reason=r")
		answer := clitest.WriteFile(t, `{"id": 1}`)
		for _, args := range [][]string{{executed, "--complete=" + answer, "--status=201"}, {not, "--release"}, {other, "--release"}} {
			if got := clitest.Run(t, append([]string{"keys", "resolve", "--store=" + k.store, "--reason=seen"}, args...)...); got.Code != 0 {
				t.Fatal(got.Stderr)
			}
		}
		k.refused(cli.ExitFailed, "retrysafe inbox drop", "redeliver", executed, "--reason=r")
		k.must("redeliver", not)
		k.await(not, "delivered")
		k.refused(cli.ExitFailed, "1 of 2 keys could not be redelivered", "redeliver", other, not, "--yes")
		k.await(other, "delivered")
		k.must("drop", executed, "--reason=it has happened")
		clitest.Want(t, "calls of the service", len(k.awaitCalls(5)), 5)
	})
}

// A request whose key another one has, of which the inbox does not know, is dead. Its key is not reopened for it: a retry
// of the other one would run a second time. Seen to fail with errMismatch not looked at in judge.
func TestTheKeyOfAnotherRequestIsNotReopened(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.status.Store(http.StatusUnprocessableEntity)
		digest := k.accepted("one", `{"n": "a"}`)
		k.await(digest, "dead")
		if got := clitest.Run(t, "outbox", "drop", digest, "--store="+k.store, "--table=retrysafe_inbox"); got.Code != 0 {
			t.Fatal(got.Stderr) // so that the inbox does not know of it
		}
		k.accepted("one", `{"n": "other"}`)
		k.await(digest, "dead")
		k.refused(cli.ExitFailed, "that of another request", "redeliver", digest, "--reason=r")
		k.refused(cli.ExitFailed, "1 of 1 key could not be redelivered", "redeliver", "--all", "--reason=r", "--yes")
		k.must("drop", digest, "--reason=r")
		k.wantGot("a")
	})
}

// A dropped request is not delivered, also if its client sends it again, and holds up no others. A paused route delivers
// nothing, and its requests can be dropped.
//
// Seen to fail with rows deleted in the outbox's cancel.sql, so that the repetition was accepted as a new request, and with
// isCanceled not looked at in Inbox.Waiting.
func TestDrop(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.must("pause", route)
		dropped, next := k.accepted("one", `{"n": "a", "about": 1}`), k.accepted("two", `{"n": "b", "about": 1}`)
		clitest.WantText(t, "list", k.must("list"), "paused", "pending")
		k.refused(cli.ExitRefused, "--reason", "drop", dropped)
		clitest.WantText(t, "preview", k.must("drop", dropped, next, "--reason=r"), "would be dropped", "--yes")
		clitest.WantText(t, "output", k.must("drop", dropped, "--reason=canceled", "--by=eve"), "never delivered")
		again := k.send("one", `{"n": "a", "about": 1}`, "--wait=10s")
		clitest.Want(t, "exit code of a repetition", again.Code, exitRefused)
		clitest.WantText(t, "a repetition", again.Stderr, "undelivered")
		k.must("resume", route)
		k.await(next, "delivered") // it is behind the other in their order
		k.wantGot("b")
		clitest.Want(t, "state", k.row(dropped).State, "dropped")
		clitest.WantText(t, "reason", k.must("show", dropped), "dropped by eve: canceled", "no record of the key")
		k.refused(cli.ExitFailed, "was delivered before", "drop", next, "--reason=r")
		k.refused(cli.ExitFailed, "is not paused", "resume", route)
	})
}

// A pause stops the deliveries of all proxies, and nothing of it is lost.
//
// Seen to fail with Pause left out of pauseCmd.Run.
func TestPause(t *testing.T) {
	everywhere(t, func(k *kit) {
		proxies := []string{k.proxy.URL}
		if !strings.HasSuffix(k.store, ".db") { // a file has one proxy
			proxies = append(proxies, clitest.StartProxy(t, k.args...).URL)
		}
		unknown := k.run("pause", "POST /hook")
		clitest.WantText(t, "a route that nothing is known of", unknown.Stderr, "check that the pattern")
		k.must("pause", route)
		for i, proxy := range proxies { // an accepted request wakes the deliveries of its proxy at once
			late := k.sendTo(proxy, fmt.Sprint("k", i), fmt.Sprintf(`{"n": "%d"}`, i), "--wait=1500ms")
			clitest.Want(t, "exit code", late.Code, exitWaiting)
			clitest.WantText(t, "output", late.Stderr, "accepted, and has no final answer yet")
		}
		k.wantGot()
		clitest.WantText(t, "stats", k.must("stats", "--json"), fmt.Sprintf(`"waiting":%d,"due":%[1]d`, len(proxies)), `"paused":true`)
		clitest.WantText(t, "stats", k.must("stats"), route, "yes", "POST /hook ", "2 routes")
		k.must("resume", route)
		for i, proxy := range proxies {
			got := k.sendTo(proxy, fmt.Sprint("k", i), fmt.Sprintf(`{"n": "%d"}`, i), "--wait=1m")
			clitest.Want(t, "exit code", got.Code, cli.ExitOK)
			clitest.WantText(t, "answer", got.Stdout, "status 201", fmt.Sprint("answer to ", i))
		}
	})
}

// send has one effect, however often it is run with one key and however the connection breaks; its exit status says what
// became of the request; and show hides secrets.
//
// Seen to fail with http.DefaultClient in the place of httpclient, with another key in each call of send, with
// DeliverAtHeader left out, with a refusal taken for the answer in await, and with secretName and the query not looked
// at in shown.
func TestSendAndShow(t *testing.T) {
	everywhere(t, func(k *kit) {
		to, err := url.Parse(k.proxy.URL)
		clitest.Must(t, err)
		var cut, refused atomic.Bool
		forward := httputil.NewSingleHostReverseProxy(to)
		bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if cut.CompareAndSwap(false, true) {
				forward.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			if r.URL.Query().Has("result") && refused.CompareAndSwap(false, true) {
				http.Error(w, "the store is away, or there is no memory for the answer", http.StatusServiceUnavailable)
				return
			}
			forward.ServeHTTP(w, r)
		}))
		defer bad.Close()
		for range 2 {
			got := k.sendTo(bad.URL, "one", `{"n": "a"}`, "--wait=1m")
			clitest.Want(t, "exit code", got.Code, cli.ExitOK)
			clitest.WantText(t, "output", got.Stdout, "http://", "status 201\n\nanswer to a\n")
		}
		k.wantGot("a")
		other := k.send("one", `{"n": "other"}`)
		clitest.Want(t, "exit code of another request with the key", other.Code, exitRefused)
		k.status.Store(http.StatusUnprocessableEntity)
		clitest.Want(t, "exit code of an error", k.send("two", `{"n": "b"}`, "--wait=1m").Code, exitRefused)
		later := k.send("three", `{"n": "c", "about": "order 9"}`, "--in=2h")
		digest := path.Base(strings.TrimSpace(later.Stdout))
		if r := k.row(digest); r == nil || r.InSeconds < 7100 || r.InSeconds > 7200 || r.Order != `order 9` {
			t.Errorf("got %+v", r)
		}
		shown := k.must("show", digest)
		clitest.WantText(t, "show", shown, "POST /hooks?…", "order 9", "pending: the next try is in 1h59m", "Content-Type: application/json",
			"X-Hook-Signature: … (see --headers)", "Idempotency-Key: …")
		asJSON := k.must("show", digest, "--json")
		for _, secret := range []string{"s3cret", "three", "order 9\""} {
			if strings.Contains(shown, secret) || strings.Contains(asJSON, secret) && secret != "order 9\"" {
				t.Errorf("show has %s:\n%s%s", secret, shown, asJSON)
			}
		}
		clitest.WantText(t, "all headers", k.must("show", digest, "--headers"), "v1=s3cret", "token=s3cret")
		clitest.Want(t, "body", k.must("show", digest, "--body"), `{"n": "c", "about": "order 9"}`)
		clitest.WantText(t, "JSON", k.must("show", digest, "--json", "--body"), `"body":"{\"n\"`, `"hidden":[`, `"records":[]`)
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.db")
	clitest.Must(t, os.WriteFile(file, nil, 0o600))
	key := strings.Repeat("0", 32)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{2, "--store", []string{"list"}},
		{2, "requests must not be lost", []string{"list", "--store=memory:"}},
		{2, "PostgreSQL, MySQL, MariaDB or SQLite", []string{"list", "--store=redis://127.0.0.1"}},
		{1, "accept: inbox", []string{"list", "--store=" + file}},
		{2, "--limit must not be negative", []string{"list", "--limit=-1", "--store=" + file}},
		{2, "32 hex digits", []string{"show", "k", "--store=" + file}},
		{2, "or --all", []string{"redeliver", "--store=" + file}},
		{2, "or --all", []string{"redeliver", key, "--all", "--store=" + file}},
		{2, "--route goes with --all", []string{"redeliver", key, "--route=a", "--store=" + file}},
		{2, "name the keys", []string{"drop", "--reason=r", "--store=" + file}},
		{2, "not the URL of a request", []string{"send", "--url=proxy/path"}},
		{2, "safe method", []string{"send", "--url=http://127.0.0.1:1/", "--method=GET"}},
		{2, "2030-01-31T18:00:00Z", []string{"send", "--url=http://127.0.0.1:1/", "--at=noon"}},
		{2, "--data", []string{"send", "--url=http://127.0.0.1:1/", "--data=@/nowhere"}},
		{1, "with --key k1", []string{"send", "--url=http://127.0.0.1:1/", "--key=k1"}},
	} {
		got := clitest.Run(t, append([]string{"inbox"}, c.args...)...)
		if got.Code != c.code || !strings.Contains(got.Stderr, c.says) {
			t.Errorf("%v: exit code %d, %s; want %d, %q", c.args, got.Code, got.Stderr, c.code, c.says)
		}
	}
}
