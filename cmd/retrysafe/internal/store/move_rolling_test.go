//go:build unix

package store

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// till is an upstream that charges, and counts how often it was asked for each order.
type till struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
}

func newTill(t *testing.T) *till {
	u := &till{asked: map[string]int{}}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order, _ := io.ReadAll(r.Body)
		u.mu.Lock()
		u.asked[string(order)]++
		u.mu.Unlock()
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %d", rand.Int64())
	}))
	t.Cleanup(u.Close)
	return u
}

// fleet is three proxies, each of which is somewhere between its old and its next configuration.
type fleet struct {
	t       *testing.T
	till    *till
	proxies [3]atomic.Pointer[clitest.Running]

	mu      sync.Mutex
	answers map[string]string // the first one of each order
	replays int
	served  chan struct{} // receives a value for each answer, if there is room
}

func (f *fleet) start(i int, store string) {
	f.t.Helper()
	config := clitest.WriteFile(f.t, "defaults: {lease: 2s, in_flight: wait:5s}")
	f.proxies[i].Store(clitest.StartProxy(f.t, "--upstream="+f.till.URL, "--store="+store, "--config="+config))
}

// roll gives each proxy another store: it is killed, whatever it does, and started anew.
func (f *fleet) roll(store string) {
	f.t.Helper()
	for i := range f.proxies {
		f.proxies[i].Load().Signal(syscall.SIGKILL)
		f.proxies[i].Load().Exit()
		f.start(i, store)
		for len(f.served) > 0 {
			<-f.served
		}
		for range 30 { // old and new ones serve side by side
			clitest.WaitFor(f.t, f.served, "an answer")
		}
	}
}

// serve lets clients order and retry until stop is called.
func (f *fleet) serve() (stop func()) {
	var clients sync.WaitGroup
	ended := make(chan struct{})
	for client := range 4 {
		clients.Go(func() {
			var known []string
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				default:
				}
				order := fmt.Sprintf("order %d %d %d", client, n, rand.Int64())
				known = append(known, order)
				for range 3 {
					f.post(order)
				}
				f.post(known[rand.IntN(len(known))]) // one from before, perhaps from another stage
			}
		})
	}
	return func() {
		close(ended)
		clients.Wait()
	}
}

// post sends an order to one of the proxies. What a broken connection means is unknown: it is sent again some time.
func (f *fleet) post(order string) {
	p := f.proxies[rand.IntN(len(f.proxies))].Load()
	got, err := p.Post(url.QueryEscape(order), order)
	if err != nil || got.StatusCode != http.StatusCreated {
		return
	}
	select {
	case f.served <- struct{}{}:
	default:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	first, again := f.answers[order]
	switch {
	case !again:
		f.answers[order] = got.Text
	case first != got.Text:
		f.t.Errorf("%s was answered %q and then %q", order, first, got.Text)
	default:
		f.replays++
	}
}

// verify expects each order to have been charged once at most, and once if it was answered.
func (f *fleet) verify() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.till.mu.Lock()
	defer f.till.mu.Unlock()
	for order, n := range f.till.asked {
		if n > 1 {
			f.t.Errorf("%s was charged %d times", order, n)
		}
	}
	if f.replays < len(f.answers) {
		f.t.Errorf("%d orders got answers, and only %d retries", len(f.answers), f.replays)
	}
	f.t.Logf("%d orders answered, %d charged, %d retries got the same answer", len(f.answers), len(f.till.asked), f.replays)
}

func move(t *testing.T, from, to string, more ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, append([]string{"store", "move", "--from=" + from, "--to=" + to}, more...)...)
}

// waitAllowed waits until the command allows a stage.
func waitAllowed(t *testing.T, from, to string, more ...string) {
	t.Helper()
	for late := time.Now().Add(2 * time.Minute); ; {
		got := move(t, from, to, more...)
		if got.Code == 0 {
			return
		}
		if got.Code != 1 || time.Now().After(late) {
			t.Fatalf("exit code %d: %s%s", got.Code, got.Stdout, got.Stderr)
		}
	}
}

// Three proxies go from one database to another while clients order and retry, each of them killed at every stage: no
// order is charged twice, and every retry gets the same answer.
//
// Seen to fail with stages 1 and 2 left out.
func TestRollingMove(t *testing.T) {
	t.Parallel()
	pg, from := clitest.Postgres.Get(t), clitest.Migrated(t)
	to := clitest.WithParam(from, "schema=next")
	if got := clitest.Run(t, "migrate", "up", "--store="+to); got.Code != 0 {
		t.Fatal(got.Stderr)
	}
	inner := strings.NewReplacer("%", "%25", "&", "%26")
	stage := func(n int) string {
		return fmt.Sprintf("move:%d?from=%s&to=%s", n, inner.Replace(from), inner.Replace(to))
	}
	f := &fleet{t: t, till: newTill(t), answers: map[string]string{}, served: make(chan struct{}, 100)}
	for i := range f.proxies {
		f.start(i, from)
	}
	stop := f.serve()
	f.roll(stage(1))
	waitAllowed(t, from, to, "--stage=2", "--quiet=3s")
	f.roll(stage(2))
	got := move(t, from, to, "--stage=3")
	clitest.Want(t, "stage 3 is allowed at once", got.Code, 1)
	clitest.WantText(t, "why", got.Stdout, "FAIL", "keys are in the old store alone: it is needed for another")
	stop()
	f.verify()

	// A day later.
	const aDay = "25 * 3600 * 1000000::bigint"
	pg.PsqlAt(t, from, "UPDATE retrysafe.claims SET claimed_at = claimed_at - "+aDay+", ends_at = ends_at - "+aDay)
	got = move(t, from, to, "--stage=3")
	clitest.Want(t, "stage 3 is allowed a day later", got.Code, 0)
	f.answers, f.replays = map[string]string{}, 0
	stop = f.serve()
	f.roll(to)
	stop()
	f.verify()
}
