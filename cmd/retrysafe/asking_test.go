package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/internal/testing/pages"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// The programs of the page learn what became of a key from a real proxy: while its operation runs, when it has ended, when
// its outcome is unknown, and if it was never sent.
//
// Seen to fail with key_status taken out of the file, and with "wait" taken out of either program.
func TestTheProgramsThatAsk(t *testing.T) {
	blocks, err := pages.Read(filepath.Join(repository, "docs", "asking-for-a-status.md"))
	clitest.Must(t, err)
	for file, program := range map[string]string{"ask.py": servers.Python(t), "ask.mjs": servers.Node(t)} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			at := slices.IndexFunc(blocks, func(b pages.Block) bool { return b.File == file })
			if at < 0 {
				t.Fatal("the page has no such program")
			}
			path := filepath.Join(t.TempDir(), file)
			clitest.Must(t, os.WriteFile(path, []byte(blocks[at].Text), 0o600))
			api := clitest.NewAPI(t)
			proxy := clitest.StartProxy(t, "--config", clitest.WriteFile(t,
				"upstream: "+api.URL+"\nadmin: 127.0.0.1:0\nstore: 'memory:'\ndefaults: {key_status: true}\n"))
			to, err := url.Parse(proxy.URL)
			clitest.Must(t, err)
			asked := make(chan struct{}, 1000) // questions that were answered
			between := &httputil.ReverseProxy{
				Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
				ModifyResponse: func(*http.Response) error {
					asked <- struct{}{}
					return nil
				},
			}
			front := httptest.NewServer(between)
			defer front.Close()
			run := func(key string) (exit int, printed, said string) {
				var out, log bytes.Buffer
				cmd := exec.CommandContext(t.Context(), program, path, front.URL, key)
				cmd.Stdout, cmd.Stderr = &out, &log
				if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
					t.Error(err)
				}
				return cmd.ProcessState.ExitCode(), out.String(), strings.TrimSpace(log.String())
			}
			want := func(key string, exit int, printed, said string) {
				t.Helper()
				if e, out, log := run(key); e != exit || out != printed || log != said {
					t.Errorf("%s: exits with %d, prints %q and %q; want %d, %q and %q", key, e, out, log, exit, printed, said)
				}
			}
			checkAfterGateways(t, program, path)
			want("k", 1, "", "unknown retry")
			for len(asked) > 0 {
				<-asked
			}
			answered := make(chan clitest.Reply, 1)
			go proxy.Hold(answered)
			clitest.WaitFor(t, api.Began, "the API to be asked")
			go func() {
				<-asked // and the operation still runs
				close(api.GoOn)
			}()
			want("k", 0, "charge 1", "succeeded do-not-repeat")
			clitest.WaitFor(t, answered, "the answer")
			proxy.MustPost(`"a/b \"c\""`, "amount=1")
			want(`"a/b \"c\""`, 0, "charge 2", "succeeded do-not-repeat")
			proxy.MustPost("cut", "amount=1", "X-Cut", "1")
			want("cut", 2, "", "abandoned do-not-repeat")
		})
	}
}

// checkAfterGateways runs a program that is answered by gateways at first: with a Retry-After that is a date, and with
// what says that it is JSON and is not. Neither is an answer, and the program waits before it asks again.
//
// Seen to fail with "int(header.get("Retry-After"))" and with ValueError taken out in Python, which exited with 1, and
// with "Number(answer.headers.get("Retry-After") ?? 1)" in JavaScript, which asked again at once.
func checkAfterGateways(t *testing.T, program, path string) {
	t.Helper()
	times := make(chan time.Time, 100)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		times <- time.Now()
		switch len(times) {
		case 1, 2:
			w.Header().Set("Retry-After", time.Now().Add(time.Second).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte("<html>"))
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"state":"succeeded","next":"do-not-repeat","executed":"yes"}`))
		}
	}))
	defer gateway.Close()
	out, err := exec.CommandContext(t.Context(), program, path, gateway.URL, "k").CombinedOutput()
	if err != nil || len(times) != 4 {
		t.Fatalf("after gateways: %v, %d questions: %s", err, len(times), out)
	}
	for last := <-times; len(times) > 0; {
		next := <-times
		if pause := next.Sub(last); pause < time.Second/2 {
			t.Errorf("after gateways: asked again after %v", pause)
		}
		last = next
	}
}
