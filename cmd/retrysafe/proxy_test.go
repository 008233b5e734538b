//go:build unix

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Seen to fail with --store memory: instead of the file.
func TestAKilledProxyRemembers(t *testing.T) {
	t.Parallel()
	up, file := newAPI(t), filepath.Join(t.TempDir(), "keys.db")
	p := startProxy(t, "--upstream="+up.URL, "--store="+file)
	first := p.mustPost("k", "amount=1")
	want(t, "status", first.StatusCode, 201)
	p.signal(syscall.SIGKILL)
	p.exit()
	p = startProxy(t, "--upstream="+up.URL, "--store="+file)
	again := p.mustPost("k", "amount=1")
	want(t, "status", again.StatusCode, 201)
	want(t, "body", again.body, first.body)
	want(t, "replayed", again.Header.Get("Idempotent-Replayed"), "true")
	want(t, "another caller", p.mustPost("k", "amount=1", "Authorization", "Bearer you").body, "charge 2")
	want(t, "asked", up.asked.Load(), 2)
}

// Seen to fail with public.Shutdown replaced by Close.
func TestAnOrderlyEndFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	up, file := newAPI(t), filepath.Join(t.TempDir(), "keys.db")
	p := startProxy(t, "--upstream="+up.URL, "--store="+file, "--admin=127.0.0.1:0")
	answered := make(chan reply, 1)
	go p.hold(answered)
	waitFor(t, up.began, "the operation to run")
	p.signal(syscall.SIGTERM)
	p.line("shutting down")
	ready, err := http.Get(p.admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	ready.Body.Close()
	want(t, "ready while shutting down", ready.StatusCode, 503)
	refuses(t, strings.TrimPrefix(p.url, "http://"), "new connections are still accepted")
	close(up.goOn)
	want(t, "body", waitFor(t, answered, "the answer").body, "charge 1")
	want(t, "exit code", p.exit(), exitOK)
	p = startProxy(t, "--upstream="+up.URL, "--store="+file)
	again := p.mustPost("k", "amount=1", "X-Hold", "1")
	want(t, "body", again.body, "charge 1")
	want(t, "asked", up.asked.Load(), 1)
}

// A client that has left does not matter: what it asked for is finished before the process ends.
//
// Seen to fail with the guard's Shutdown and the server's taken out.
func TestAnOrderlyEndFinishesWhatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	up, file := newAPI(t), filepath.Join(t.TempDir(), "keys.db")
	p := startProxy(t, "--upstream="+up.URL, "--store="+file)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		r, _ := http.NewRequestWithContext(ctx, "POST", p.url+"/payments", strings.NewReader("amount=1"))
		r.Header.Set("Authorization", "Bearer me")
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("X-Hold", "1")
		p.client.Do(r)
	}()
	waitFor(t, up.began, "the operation to run")
	leave()
	<-left
	p.signal(syscall.SIGINT)
	p.line("shutting down")
	close(up.goOn)
	want(t, "exit code", p.exit(), exitOK)
	p = startProxy(t, "--upstream="+up.URL, "--store="+file)
	want(t, "body", p.mustPost("k", "amount=1", "X-Hold", "1").body, "charge 1")
	want(t, "asked", up.asked.Load(), 1)
}

func TestTheGraceEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *running){
		"by time":            func(*running) {},
		"by a second signal": func(p *running) { p.signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newAPI(t)
			defer close(up.goOn)
			grace := "--grace=100ms"
			if name != "by time" {
				grace = "--grace=1h"
			}
			p := startProxy(t, "--upstream="+up.URL, "--store=memory:", grace)
			go p.post("k", "amount=1", "X-Hold", "1")
			waitFor(t, up.began, "the operation to run")
			p.signal(syscall.SIGTERM)
			p.line("shutting down")
			end(p)
			want(t, "exit code", p.exit(), exitFailed)
			wantText(t, "log", p.log(), "gave up waiting")
		})
	}
}

func TestTwoProxiesCannotShareAFile(t *testing.T) {
	t.Parallel()
	up, file := newAPI(t), filepath.Join(t.TempDir(), "keys.db")
	first := startProxy(t, "--upstream="+up.URL, "--store="+file)
	second := launch(t, "--upstream="+up.URL, "--store="+file)
	want(t, "exit code", second.exit(), exitFailed)
	wantText(t, "log", second.log(), file)
	if strings.Contains(second.log(), "goroutine") {
		t.Error(second.log())
	}
	want(t, "the first goes on", first.mustPost("k", "amount=1").StatusCode, 201)
}

func TestTakenAddresses(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, flag := range []string{"--listen=", "--admin="} {
		p := launch(t, "--upstream=http://127.0.0.1:1", "--store=memory:", flag+l.Addr().String())
		want(t, "exit code", p.exit(), exitFailed)
		wantText(t, "log", p.log(), l.Addr().String(), "in use")
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--upstream=http://127.0.0.1:1", "--admin=127.0.0.1:0")
	for path, status := range map[string]int{"/healthz": 200, "/readyz": 200, "/": 404} {
		res, err := http.Get(p.admin + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		want(t, path, res.StatusCode, status)
	}
}

// Clients are told that a retry waits.
//
// Seen to fail with the library's default, which refuses at once.
func TestClientsAreToldOfTheWait(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--upstream=http://127.0.0.1:1", "--store=memory:")
	r, err := http.NewRequestWithContext(t.Context(), "GET", p.url+"/.well-known/idempotency-policy", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json")
	res, err := p.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	wantText(t, "policy", string(text), "wait 5s, then refused")
}

// The log tells what happened, and neither keys nor credentials nor bodies.
func TestTheLogKeepsSecrets(t *testing.T) {
	t.Parallel()
	up := newAPI(t)
	p := startProxy(t, "--upstream="+up.URL, "--store=memory:")
	secrets := []string{"my-secret-key", "my-credential", "my-body"}
	for _, step := range []struct {
		key, body, what string
		status          int
	}{
		{secrets[0], secrets[2], "work_succeeded", 201},
		{secrets[0], secrets[2], "answer_replayed", 201},
		{secrets[0], secrets[2] + "!", "mismatch_refused", 422},
		{secrets[0] + " b", "", "refused", 400},
	} {
		got := p.mustPost(step.key, step.body, "Authorization", "Bearer "+secrets[1])
		want(t, "status", got.StatusCode, step.status)
		line := p.line("request")
		want(t, "what", line["what"], any(step.what))
		want(t, "status", line["status"], any(float64(step.status)))
		if step.what != "refused" && len(line["key"].(string)) != 32 {
			t.Errorf("no digest: %v", line)
		}
	}
	for _, secret := range secrets {
		if strings.Contains(p.log(), secret) {
			t.Errorf("the log shows %q:\n%s", secret, p.log())
		}
	}
}
