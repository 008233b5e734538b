package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// language is one whose program docs/your-client.md shows.
type language struct {
	name    string
	fence   string // of the program's code on the page
	command []string
}

func languages(t *testing.T) []language {
	t.Helper()
	servers.Curl(t) // for the shell
	return []language{
		{"shell", "bash", []string{"/bin/sh", "pay.sh"}},
		{"Python", "python", []string{servers.Python(t), "pay.py"}},
		{"JavaScript", "js", []string{servers.Node(t), "pay.mjs"}},
	}
}

// payer is a language's program, in a folder in which it keeps its keys.
type payer struct {
	language
	folder string
	killed func() // is called once the program was killed, because ctx has ended; may be nil
}

func (l language) payer(t *testing.T) payer {
	t.Helper()
	_, code, _ := strings.Cut(page(t), "\n```"+l.fence+"\n")
	code, _, _ = strings.Cut(code, "\n```\n")
	p := payer{language: l, folder: t.TempDir(), killed: func() {}}
	if err := os.WriteFile(filepath.Join(p.folder, l.command[1]), []byte(code+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/your-client.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pay runs the program until it exits or ctx ends, which kills it.
func (p payer) pay(ctx context.Context, url, order string) (exit int, answer string, err error) {
	cmd := exec.CommandContext(ctx, p.command[0], append(p.command[1:], url, order, "4200")...)
	var out, log bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.folder, &out, &log
	cmd.Cancel = func() error {
		defer p.killed()
		return cmd.Process.Kill()
	}
	err = cmd.Run()
	if exited := new(exec.ExitError); errors.As(err, &exited) && exited.Exited() {
		err = nil
	}
	if log.Len() > 0 && ctx.Err() == nil {
		err = errors.Join(err, fmt.Errorf("%s: %s", p.name, log.Bytes()))
	}
	return cmd.ProcessState.ExitCode(), out.String(), err
}

// till is an API behind the middleware. It notes what was paid, and the keys that came.
type till struct {
	*httptest.Server
	mu   sync.Mutex
	paid map[string]int
	keys map[string]map[string]bool
	work func() // what each payment waits for
}

func newTill(t *testing.T, work func()) *till {
	t.Helper()
	s := &till{paid: map[string]int{}, keys: map[string]map[string]bool{}, work: work}
	guard := retrysafe.New(memstore.New(memstore.Options{}),
		retrysafe.Options{Policy: retrysafe.Policy{OnInFlight: retrysafe.Wait(5 * time.Second)}})
	guarded := httpsafe.Middleware(guard, httpsafe.ScopeCredential(),
		httpsafe.Options{Required: true})(http.HandlerFunc(s.pay))
	s.Server = httptest.NewServer(guarded)
	t.Cleanup(func() {
		s.Close()
		if err := guard.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *till) pay(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	order := regexp.MustCompile(`"order": ?"([^"]*)"`).FindStringSubmatch(string(body))[1]
	s.mu.Lock()
	s.paid[order]++
	if s.keys[order] == nil {
		s.keys[order] = map[string]bool{}
	}
	s.keys[order][r.Header.Get("Idempotency-Key")] = true
	n := s.paid[order]
	s.mu.Unlock()
	s.work()
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "%s was paid %d times", order, n)
}

// check expects that each order was paid once, under one key.
func (s *till) check(t *testing.T, orders int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.paid) != orders {
		t.Errorf("%d orders were paid, want %d", len(s.paid), orders)
	}
	for order, n := range s.paid {
		if n != 1 || len(s.keys[order]) != 1 {
			t.Errorf("%s was paid %d times, under %d keys; want once", order, n, len(s.keys[order]))
		}
	}
}

// The programs of the page pay each order once through a network that cuts connections in every place. Seen to fail
// with a new key for each attempt, in each of the three: orders are paid twice.
func TestTheProgramsOfThePageThroughABadNetwork(t *testing.T) {
	const orders = 6
	all := languages(t)
	s := newTill(t, func() { <-time.After(20 * time.Millisecond) }) // work takes time: the next attempt comes during it
	net := newNetwork(t, 0.5, 7)
	net.server.Store(s.Listener.Addr().String())
	var running sync.WaitGroup
	for _, l := range all {
		p := l.payer(t)
		for n := range orders {
			order := fmt.Sprintf("%s-%d", l.name, n)
			running.Go(func() {
				exit, answer, err := p.pay(t.Context(), net.url(), order)
				if exit != 0 || err != nil || answer != order+" was paid 1 times" {
					t.Errorf("%s: exit %d, %q, %v; want 0 and the answer", order, exit, answer, err)
				}
			})
		}
	}
	running.Wait()
	s.check(t, orders*len(all))
	exchanges, cuts := net.cuts()
	if t.Logf("%d exchanges, cut: %v", exchanges, cuts); len(cuts) != int(fates)-1 {
		t.Errorf("cut %v, want every place", cuts)
	}
	for place, n := range cuts {
		if n == 0 {
			t.Errorf("no exchange was cut %v", place)
		}
	}
}

// Several starts of a program for one order at the same time use one key, and get the answer. Seen to fail with flock
// taken out of the program in shell: some found the file of the new key gone, and said that the order was refused.
func TestTheProgramsOfThePageAtOnce(t *testing.T) {
	all := languages(t)
	s := newTill(t, func() {})
	var running sync.WaitGroup
	for _, l := range all {
		p := l.payer(t)
		for range 6 {
			running.Go(func() {
				exit, answer, err := p.pay(t.Context(), s.URL, l.name)
				if exit != 0 || err != nil || answer != l.name+" was paid 1 times" {
					t.Errorf("%s: exit %d, %q, %v; want 0 and the answer", l.name, exit, answer, err)
				}
			})
		}
	}
	running.Wait()
	s.check(t, len(all))
}

// A refusal that comes after an earlier start of the program does not say that nothing was paid: that start may have
// paid. Neither does an answer that says that it is JSON and is not. Seen to fail with maybe not set by the key that is
// there, in each of the three, and with ValueError taken out of the program in Python.
func TestTheProgramsOfThePageRememberAnEarlierStart(t *testing.T) {
	for _, l := range languages(t) {
		t.Run(l.name, func(t *testing.T) {
			sent := map[string]int{}
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent[r.URL.Path]++
				switch {
				case sent[r.URL.Path] > 1:
					w.WriteHeader(http.StatusForbidden)
				case r.URL.Path == "/again":
					w.Header().Set("Idempotency-Status", "unknown")
					w.WriteHeader(http.StatusInternalServerError)
				default:
					w.Header().Set("Content-Type", "application/problem+json")
					w.WriteHeader(http.StatusBadGateway)
					io.WriteString(w, "<html>")
				}
			}))
			defer s.Close()
			p := l.payer(t)
			for _, path := range []string{"/again", "/again", "/html"} {
				if exit, _, err := p.pay(t.Context(), s.URL+path, "order-"+path[1:]); exit != 2 || err != nil {
					t.Errorf("%s: exit %d after %v requests, %v; want 2", path, exit, sent, err)
				}
			}
			if sent["/again"] != 2 || sent["/html"] != 2 {
				t.Errorf("requests %v, want two for each path", sent)
			}
		})
	}
}

// A program that is killed while it waits for the answer, and started again, sends the key that it had stored. Seen
// to fail with the key made by each start, in each of the three: the order is paid twice.
func TestTheProgramsOfThePageKeepTheirKeys(t *testing.T) {
	for _, l := range languages(t) {
		t.Run(l.name, func(t *testing.T) {
			arrived, killed := make(chan struct{}), make(chan struct{})
			s := newTill(t, func() {
				close(arrived) // panics if it is done twice
				<-killed
			})
			p := l.payer(t)
			p.killed = func() { close(killed) } // the answer comes when the program is gone
			ctx, kill := context.WithCancel(t.Context())
			go func() {
				<-arrived
				kill()
			}()
			exit, _, _ := p.pay(ctx, s.URL, "order-17")
			if ctx.Err() == nil || exit != -1 {
				t.Fatalf("the program exited with %d, want it killed", exit)
			}
			if exit, answer, err := p.pay(t.Context(), s.URL, "order-17"); exit != 0 || err != nil ||
				answer != "order-17 was paid 1 times" {
				t.Errorf("started again: exit %d, %q, %v; want 0 and the answer", exit, answer, err)
			}
			s.check(t, 1)
		})
	}
}
