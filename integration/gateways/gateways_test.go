//go:build unix

package gateways

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// TestMain runs all gateways at once, because the tests mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", fmt.Sprint(len(gateways)))
	os.Exit(m.Run())
}

// The kinds of requests.
const (
	keyed   = "keyed"   // with a key, through the gateway as the page configures it
	keyless = "keyless" // without one
	control = "control" // without one, and the gateway or the client sends it again all the same
)

// While two proxies are killed in turn, each between the effect of a request and its answer, a gateway sends requests
// with a key to the other proxy: every client gets the answer of the one charge. It does not repeat requests without a
// key. The control is seen to fail each time: there such requests are repeated too, and each kill charges twice.
//
// Seen to fail with each of these changes of the page: "complete: upstream" taken out, "non_idempotent" taken out,
// "retry-on conn-failure" alone, no "std.cache_req_body"; and with nginx's condition made true for every request.
func TestSoakGatewaysRetrySafely(t *testing.T) {
	var table text
	t.Run("all", func(t *testing.T) {
		for _, g := range gateways {
			t.Run(g.name, func(t *testing.T) {
				t.Parallel()
				s := newStand(t)
				recipe := s.start(g)
				repeating := recipe
				if g.repeats() {
					repeating = s.start(g, g.condition...)
				}
				l := &load{stand: s}
				kills := map[string]int{}
				for i := range 4 * soak.Times(t, 1) {
					kind := []string{keyed, keyless, keyed, control}[i%4]
					stop := make(chan struct{})
					for range 2 {
						l.run(stop, keyed, recipe, !g.repeats())
						l.run(stop, keyless, recipe, false)
						l.run(stop, control, repeating, !g.repeats())
					}
					s.kill(i/2%2, kind)
					close(stop)
					l.done.Wait() // no request meets two kills: with two proxies it would have none left
					kills[kind]++
				}
				l.judge(g, kills, &table)
			})
		}
	})
	t.Logf("\n| gateway | requests | sent | kills | doubled | failed |\n|---|---|---|---|---|---|\n%s", &table)
}

// kill kills the proxy while a request of the kind stands between its effect and its answer, and starts it again. It
// first waits until both gateways use the other proxy, which may have been killed before.
func (s *stand) kill(proxy int, kind string) {
	s.Helper()
	s.await(1-proxy, keyed, false)
	s.await(1-proxy, control, false)
	s.await(proxy, kind, true)
	s.proxies[proxy].Kill(s.T)
	s.proxies[proxy].Start(s.T)
}

// await returns when a request is at the place.
func (s *stand) await(proxy int, kind string, stop bool) {
	s.Helper()
	at := &place{proxy, kind, stop, make(chan struct{})}
	s.next.Store(at)
	select {
	case <-at.reached:
	case <-time.After(time.Minute):
		s.Fatalf("no %s request reaches the service through proxy %d", kind, proxy)
	}
}

// load is the clients of a gateway.
type load struct {
	*stand
	done sync.WaitGroup
	n    atomic.Int64

	mu       sync.Mutex
	outcomes []outcome
}

// outcome is what the client of an order got.
type outcome struct {
	kind, order string
	code        int
	body        string
}

// run starts a client that sends one order after the other until it is stopped. If it repeats, it sends an order again
// until it is told that the order has been charged; otherwise it sends it once.
func (l *load) run(stop <-chan struct{}, kind, url string, repeats bool) {
	l.done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			o := outcome{kind: kind, order: fmt.Sprintf("%s %d", kind, l.n.Add(1))}
			for try := 0; try == 0 || repeats && o.code != http.StatusCreated && l.Context().Err() == nil; try++ {
				l.send(&o, url)
			}
			l.mu.Lock()
			l.outcomes = append(l.outcomes, o)
			l.mu.Unlock()
		}
	})
}

// Each request has a connection of its own: on one that it has used before, Go itself sends a request with a key again.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// send sends an order once.
func (l *load) send(o *outcome, url string) {
	o.code, o.body = 0, ""
	ctx, cancel := context.WithTimeout(l.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/charges", strings.NewReader(`"`+o.order+`"`))
	if err != nil {
		l.Error(err)
		return
	}
	request.Header.Set("Authorization", "Bearer buyer")
	request.Header.Set("Content-Type", "application/json")
	if o.kind == keyed {
		request.Header.Set("Idempotency-Key", `"`+o.order+`"`)
	}
	response, err := client.Do(request)
	if err != nil {
		o.body = err.Error()
		return
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if o.body = string(body); err != nil {
		o.body = err.Error()
		return
	}
	o.code = response.StatusCode
	if o.kind == keyed && o.code == http.StatusCreated && response.Header.Get("Idempotency-Status") == "" {
		l.Errorf("%s: the answer has no Idempotency-Status", o.order)
	}
}

// judge compares what the clients got with the charges.
func (l *load) judge(g gateway, kills map[string]int, table *text) {
	l.Helper()
	charges := l.charges()
	sent, doubled, failed := map[string]int{}, map[string]int{}, map[string]int{}
	for _, o := range l.outcomes {
		got := charges[o.order]
		sent[o.kind]++
		if len(got) > 1 {
			doubled[o.kind]++
		}
		switch {
		case o.code != http.StatusCreated:
			if failed[o.kind]++; o.kind == keyed {
				l.Errorf("%s: %d %s", o.order, o.code, o.body)
			}
		case o.kind == keyed && (len(got) != 1 || got[0] != o.body):
			l.Errorf("%s: the client was told charge %s, and the charges are %v", o.order, o.body, got)
		}
	}
	for _, kind := range []string{keyed, keyless, control} {
		fmt.Fprintf(table, "| %s | %s | %d | %d | %d | %d |\n", g.name, kind, sent[kind], kills[kind], doubled[kind], failed[kind])
	}
	if doubled[keyless] > 0 {
		l.Errorf("%d requests without a key were repeated", doubled[keyless])
	}
	if doubled[control] < kills[control] {
		l.Errorf("of %d kills without keys %d charged twice: the test proves nothing", kills[control], doubled[control])
	}
}

// text is what several tests write.
type text struct {
	mu sync.Mutex
	strings.Builder
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Builder.Write(p)
}
