//go:build unix

package proxycmd

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/reconcile"
	"github.com/retrysafe/retrysafe/outbox/webhook"
)

// ledger is an API behind several addresses that counts its runs by key, and the service that says what became of them.
type ledger struct {
	apis   [2]*httptest.Server
	asks   *httptest.Server
	secret string

	mu     sync.Mutex
	runs   map[string]int
	fenced map[string]int // the attempts, up to this one, that were said to be not executed
}

func newLedger(t *testing.T) *ledger {
	l := &ledger{secret: webhook.NewSecret(), runs: map[string]int{}, fenced: map[string]int{}}
	for i := range l.apis {
		l.apis[i] = httptest.NewServer(http.HandlerFunc(l.run))
		t.Cleanup(l.apis[i].Close)
	}
	secrets, err := webhook.ParseSecrets(l.secret)
	clitest.Must(t, err)
	l.asks = httptest.NewServer(webhook.Verify(secrets, webhook.VerifyOptions{})(http.HandlerFunc(l.reconcile)))
	t.Cleanup(l.asks.Close)
	return l
}

// run is the operation. It refuses an attempt of which it has said that it was not executed: it arrives too late.
func (l *ledger) run(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	attempt, _ := strconv.Atoi(r.Header.Get("X-Attempt"))
	l.mu.Lock()
	if attempt <= l.fenced[key] {
		l.mu.Unlock()
		w.WriteHeader(http.StatusConflict)
		return
	}
	l.runs[key]++
	answer := answerOf(key, l.runs[key])
	l.mu.Unlock()
	time.Sleep(rand.N(5 * time.Millisecond)) // so that a kill finds requests that have run and were not answered
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, answer)
}

func answerOf(key string, run int) string { return fmt.Sprint(key, " run ", run) }

// reconcile says whether a key has run.
func (l *ledger) reconcile(w http.ResponseWriter, r *http.Request) {
	var q reconcile.Question
	_ = json.NewDecoder(r.Body).Decode(&q)
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.runs[q.Key]; n > 0 {
		_ = json.NewEncoder(w).Encode(map[string]any{"outcome": "executed", "status": 201, "body": answerOf(q.Key, n)})
		return
	}
	l.fenced[q.Key] = max(l.fenced[q.Key], q.Attempt)
	_, _ = io.WriteString(w, `{"outcome": "not_executed"}`)
}

// crowd are clients that send keys of their own, twice each, until they are told to stop.
type crowd struct {
	*testing.T
	proxy    *reloadable
	away     atomic.Bool // the proxy is being killed or started
	deaths   atomic.Int64
	answered atomic.Int64
	stop     atomic.Bool
	unknown  atomic.Int64 // operations whose outcome is unknown
	anyway   bool         // such an outcome is a mistake
	clients  sync.WaitGroup
	mu       sync.Mutex
	answers  map[string]string
}

// run is one client.
func (c *crowd) run(name string) {
	for n := 0; !c.stop.Load(); n++ {
		key := fmt.Sprint(name, "-", n)
		if first := c.post(key); first != "" && first != "unknown" {
			if again := c.post(key); again != first {
				c.Errorf("the retry of %s gets %q after %q", key, again, first)
			}
			c.mu.Lock()
			c.answers[key] = first
			c.mu.Unlock()
		}
		c.answered.Add(1)
	}
}

// post sends a key until there is an answer, and returns its body; "unknown" if the outcome is unknown. Only a proxy that is
// dead at some moment of the request may leave it without an answer.
func (c *crowd) post(key string) string {
	for late := time.Now().Add(2 * time.Minute); time.Now().Before(late); {
		before, wasAway := c.deaths.Load(), c.away.Load()
		got, err := c.proxy.Post(key, "amount=1")
		switch {
		case err == nil && got.StatusCode == http.StatusCreated:
			return got.Text
		case err == nil && strings.Contains(got.Text, "outcome-unknown") && !c.anyway:
			c.unknown.Add(1)
			return "unknown"
		case err == nil && got.StatusCode == http.StatusConflict && strings.Contains(got.Text, "in-flight"):
			time.Sleep(10 * time.Millisecond) // a killed proxy had the lease
		case err != nil && (wasAway || c.away.Load() || c.deaths.Load() != before):
			time.Sleep(10 * time.Millisecond)
		case err != nil:
			c.Errorf("%s gets no answer from a proxy that lives: %v", key, err)
			return ""
		default:
			c.Errorf("%s is refused: %d %s", key, got.StatusCode, got.Text)
			return ""
		}
	}
	c.Errorf("%s has no answer for minutes", key)
	return ""
}

// progress waits for some more answers.
func (c *crowd) progress(n int64) {
	want := c.answered.Load() + n
	for late := time.Now().Add(2 * time.Minute); c.answered.Load() < want; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			c.Fatal("the clients get no answers")
		}
	}
}

// underLoad reloads a proxy 30 times while clients send requests, between two configurations with an upstream each, and
// kills it so often. It returns what the clients have been told.
func underLoad(t *testing.T, store string, l *ledger, kills int, settings string, anyway bool) *crowd {
	text := func(i int) string {
		other := ""
		if i%2 == 1 {
			other = "routes:\n  POST /payments: {retention: {replay: 48h}}\n  POST /other: {required: true}\n"
		}
		return "upstream: " + l.apis[i%2].URL + "\nreconcile_secret: {env: RECONCILE}\n" + settings + other
	}
	args := []string{"--store=" + store, "--listen=" + freeAddress(t)}
	p := startReloadable(t, text(0), args...)
	c := &crowd{
		T: t, proxy: &reloadable{Running: &clitest.Running{T: t, URL: p.URL, Client: p.Client}}, anyway: anyway,
		answers: map[string]string{},
	}
	for i := range 8 {
		c.clients.Go(func() { c.run("client-" + fmt.Sprint(i)) })
	}
	defer c.clients.Wait()
	defer c.stop.Store(true)
	for i := range 30 {
		c.progress(20)
		p.reload(text(i + 1))
		if i%(30/kills) == 30/kills-1 {
			c.progress(rand.N(int64(20)))
			c.away.Store(true)
			p.Signal(syscall.SIGKILL)
			p.Exit()
			c.deaths.Add(1)
			p.start(t, args...)
			c.away.Store(false)
		}
	}
	c.progress(20)
	return c
}

// check says that each key has run at most once, and that each answer is that of the run.
func (c *crowd) check(l *ledger) {
	c.clients.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, n := range l.runs {
		if n != 1 {
			c.Errorf("%s has run %d times", key, n)
		}
	}
	for key, answer := range c.answers {
		if want := answerOf(key, 1); answer != want {
			c.Errorf("%s has the answer %q, want %q", key, answer, want)
		}
	}
	c.Logf("%d keys with an answer, %d with an unknown outcome", len(c.answers), c.unknown.Load())
}

// Under load, 30 reloads between two configurations refuse no request and run none twice; and after three kills the
// outcome of a key may be unknown, but it does not run again either.
//
// Seen to fail with Shutdown of the guard in replace (requests are refused), and with abandoned: rerun in the settings (keys
// run twice).
func TestReloadsUnderLoad(t *testing.T) {
	t.Setenv("RECONCILE", webhook.NewSecret())
	for name, store := range map[string]func() string{
		"postgres": func() string { return clitest.Migrated(t) },
		"redis": func() string {
			return clitest.WithParam(clitest.Redis.Get(t).URL(), "prefix=reload_"+retrysafe.NewOwner().String()[:8])
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t)
			c := underLoad(t, store(), l, 3, "defaults: {lease: 3s, in_flight: wait:15s, attempt_header: X-Attempt}\n", false)
			c.check(l)
		})
	}
}

// With reconcile nothing is lost either: each key has run once, and its answer is that of the run, although the proxy was
// killed five times and reloaded 30 times.
//
// Seen to fail with reconcile left out of the settings (keys without an answer), and with a ledger that says not_executed of keys
// that have run (runs twice).
func TestReconcileUnderLoad(t *testing.T) {
	l := newLedger(t)
	t.Setenv("RECONCILE", l.secret)
	c := underLoad(t, clitest.Migrated(t), l, 5,
		"defaults: {lease: 3s, in_flight: wait:15s, attempt_header: X-Attempt, reconcile: '"+l.asks.URL+"'}\n", true)
	c.check(l)
	if len(c.answers) != len(l.runs) {
		t.Errorf("%d keys have run, and %d have an answer", len(l.runs), len(c.answers))
	}
}
