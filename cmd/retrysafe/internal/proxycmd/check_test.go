//go:build unix

package proxycmd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/outbox/webhook"
)

// If every line says "ok", the proxy starts and reaches its upstream.
//
// Seen to fail with each check taken out, and with a file that is opened to see whether it is there.
func TestCheckTriesWhatIsNamed(t *testing.T) {
	t.Parallel()
	up, keys := clitest.NewAPI(t), filepath.Join(t.TempDir(), "keys.db")
	flags := []string{"proxy", "--check", "--store=" + keys}

	fresh := clitest.Run(t, append(flags, "--upstream="+up.URL)...)
	clitest.Want(t, "exit code with a store to be made", fresh.Code, cli.ExitOK)
	clitest.WantText(t, "output", fresh.Stderr, "ok      store "+keys+": does not exist yet",
		"ok      upstream "+up.URL+": accepts connections")
	clitest.WantText(t, "configuration", fresh.Stdout, "lease: 30s", "in_flight: 'wait:5s'")
	if _, err := os.Stat(keys); err == nil {
		t.Error("the check has made the store")
	}

	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store="+keys)
	taken := clitest.Run(t, append(flags, "--upstream="+up.URL)...)
	clitest.Want(t, "exit code beside a running proxy", taken.Code, cli.ExitOK)
	clitest.WantText(t, "output", taken.Stderr, "store "+keys+": not checked: another process uses it")
	p.Command.Process.Kill()
	p.Exit()

	down := clitest.Run(t, append(flags, "--upstream=http://127.0.0.1:1")...)
	clitest.Want(t, "exit code without an upstream", down.Code, cli.ExitFailed)
	clitest.WantText(t, "output", down.Stderr, "ok      store "+keys+": takes keys",
		"FAILED  upstream http://127.0.0.1:1: cannot connect: ", "start it, or correct its address", "--offline")
	offline := clitest.Run(t, append(flags, "--upstream=http://127.0.0.1:1", "--offline")...)
	clitest.Want(t, "exit code offline", offline.Code, cli.ExitOK)
	clitest.Want(t, "output offline", offline.Stderr, "")

	if err := os.WriteFile(keys, []byte(strings.Repeat("something else ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := clitest.Run(t, append(flags, "--upstream="+up.URL)...)
	clitest.Want(t, "exit code with a file that is no store", foreign.Code, cli.ExitFailed)
	clitest.WantText(t, "output", foreign.Stderr, "FAILED  store "+keys+": ", "ok      upstream")
}

// A misspelt variable is not in force, and a proxy in front of itself answers nothing.
//
// Seen to fail with each of the two checks taken out: the first says "no upstream", or nothing if the file has one.
func TestVariablesAndUpstreamsThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	err := checkVariables([]string{"RETRYSAFE_UPSTREM=http://x", "RETRYSAFE_STORE=memory:"})
	clitest.WantText(t, "error", fmt.Sprint(err), "RETRYSAFE_UPSTREM is unknown", "RETRYSAFE_UPSTREAM?")
	if err := checkVariables([]string{"RETRYSAFE_UPSTREAM=http://x", "RETRYSAFE_TEST_POSTGRES=x", "UPSTREM="}); err != nil {
		t.Error(err)
	}
	for _, listen := range []string{":8080", "127.0.0.1:8080", "0.0.0.0:8080"} {
		got := clitest.Run(t, "proxy", "--check", "--offline", "--upstream=http://localhost:8080", "--listen="+listen)
		clitest.Want(t, "exit code", got.Code, cli.ExitRefused)
		clitest.WantText(t, "output", got.Stderr, "is this proxy itself")
	}
	other := clitest.Run(t, "proxy", "--check", "--offline", "--upstream=http://api.example.com:8080", "--listen=:8080")
	clitest.Want(t, "exit code for another host", other.Code, cli.ExitOK)
}

// Where the upstream completes the keys, it must be able to. Seen to fail with CheckCompletion taken out of newPlan.
func TestAStoreInWhichTheUpstreamCannotCompleteIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "proxy.yaml")
	text := "upstream: http://127.0.0.1:1\nroutes:\n  POST /charges: {complete: upstream}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{
		{"--check", "--offline"}, {"--check"}, {"--check", "--store=shards:?a=postgres://x@y/z&b=memory:"}, {},
	} {
		if t.Failed() {
			return // a proxy that starts does not end
		}
		got := clitest.Run(t, append([]string{"proxy", "--config=" + file}, flags...)...)
		clitest.Want(t, "exit code", got.Code, cli.ExitRefused)
		clitest.WantText(t, "output", got.Stderr, "complete: upstream cannot work with the store", "write store: postgres://")
	}
}

func TestCheckTriesAServer(t *testing.T) {
	t.Parallel()
	got := clitest.Run(t, "proxy", "--check", "--upstream="+clitest.NewAPI(t).URL,
		"--store=postgres://u:s3cret@127.0.0.1:1/db")
	clitest.Want(t, "exit code", got.Code, cli.ExitFailed)
	clitest.WantText(t, "output", got.Stderr, "FAILED  store postgres://u:xxxxx@127.0.0.1:1/db: ", "no server listens")
	if strings.Contains(got.Stdout+got.Stderr, "s3cret") {
		t.Errorf("the password is shown:\n%s", got.Stderr)
	}
}

// Seen to fail with the upstream's certificate left unread, and with ca: left out of the check.
func TestCheckTriesCertificates(t *testing.T) {
	t.Parallel()
	up := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(up.Close)
	a := newAuthority(t)
	known := a.write("upstream.pem", "CERTIFICATE", up.Certificate().Raw)
	for file, code := range map[string]int{
		"store: 'memory:'\nupstream: " + up.URL + "\n":                               cli.ExitFailed,
		"store: 'memory:'\nupstream: {url: '" + up.URL + "', ca: '" + known + "'}\n": cli.ExitOK,
	} {
		got := clitest.Run(t, "proxy", "--check", "--config="+clitest.WriteFile(t, file))
		clitest.Want(t, "exit code of "+file, got.Code, code)
		if code != cli.ExitOK {
			clitest.WantText(t, "output", got.Stderr, "FAILED  upstream", "ca: FILE")
		}
	}
}

func TestCheckFetchesTheKeysOfTokens(t *testing.T) {
	t.Parallel()
	up, login := clitest.NewAPI(t), newLogin(t)
	for url, code := range map[string]int{login.URL: cli.ExitOK, "http://127.0.0.1:1/jwks": cli.ExitFailed} {
		got := clitest.Run(t, "proxy", "--check", "--upstream="+up.URL, "--store=memory:", "--scope=jwt:"+url)
		clitest.Want(t, "exit code for "+url, got.Code, code)
		clitest.WantText(t, "output", got.Stderr, " scope jwt:"+url+": ")
	}
}

// Every service that a file names is tried, each once. Seen to fail with those of routes left out.
func TestCheckTriesTheServicesOfRoutes(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	secret := clitest.WriteFile(t, webhook.NewSecret())
	got := clitest.Run(t, "proxy", "--check", "--config="+clitest.WriteFile(t, fmt.Sprintf(`
store: 'memory:'
upstream: %[1]s
reconcile_secret: {file: %[2]s}
defaults: {reconcile: http://127.0.0.1:1/reconcile}
routes:
  POST /a: {upstream: http://127.0.0.1:2}
  POST /b: {upstream: %[1]s}
`, up.URL, secret)))
	clitest.Want(t, "exit code", got.Code, cli.ExitFailed)
	clitest.WantText(t, "check", got.Stderr, "ok      upstream "+up.URL, "FAILED  upstream http://127.0.0.1:2",
		"FAILED  reconcile 127.0.0.1:1", "2 of the checks")
}

// A caller whose login has been revoked meanwhile gets no stored answer.
//
// Seen to fail with the setting left out of the proxy's options.
func TestARevokedLoginGetsNoReplay(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	var revoked atomic.Bool
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if revoked.Load() || r.Header.Get("Authorization") != "Bearer me" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
		}
	}))
	t.Cleanup(login.Close)
	config := clitest.WriteFile(t, "upstream: "+up.URL+"\nstore: 'memory:'\nauth: "+login.URL+"/whoami\n")
	check := clitest.Run(t, "proxy", "--check", "--config="+config)
	clitest.Want(t, "exit code", check.Code, cli.ExitOK)
	clitest.WantText(t, "check", check.Stdout+check.Stderr, "auth: '"+login.URL+"/whoami'", "ok      auth 127.0.0.1:",
		"accepts connections")
	p := clitest.StartProxy(t, "--config="+config)
	clitest.Want(t, "first", p.MustPost("k", "amount=1").StatusCode, 201)
	clitest.Want(t, "replay", p.MustPost("k", "amount=1").Header.Get("Idempotent-Replayed"), "true")
	revoked.Store(true)
	again := p.MustPost("k", "amount=1")
	clitest.Want(t, "status after the login is revoked", again.StatusCode, 401)
	clitest.WantText(t, "body", again.Text, "who are you?")
	login.Close()
	clitest.Want(t, "status when auth is down", p.MustPost("k", "amount=1").StatusCode, 503)
	clitest.Want(t, "asked", up.Asked.Load(), 1)
	down := clitest.Run(t, "proxy", "--check", "--config="+config)
	clitest.Want(t, "exit code when auth is down", down.Code, cli.ExitFailed)
	clitest.WantText(t, "check", down.Stderr, "FAILED  auth 127.0.0.1:", "start it, or correct its address")
}

// Seen to fail with Warnings not asked for.
func TestWarningsAreShown(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	name := clitest.WriteFile(t,
		"upstream: "+up.URL+"\nstore: 'memory:'\nroutes:\n  POST /payments:\n    ambiguous: release\n")
	got := clitest.Run(t, "proxy", "--check", "--config="+name)
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "output", got.Stderr, "warning: "+name+":5:16: ambiguous: release",
		"    ambiguous: release\n", "the retry runs it again", "write ambiguous: store")
	line := clitest.StartProxy(t, "--config="+name).Log()
	clitest.WantText(t, "log", line, `"level":"WARN"`, `"line":5`, "the retry runs it again")
}

// Seen to fail with the scope read as any text: header:Cookie is accepted.
func TestAScopeIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	for file, says := range map[string]string{
		"upstream: http://x\nscope: mtls\n":          ":2:8: the scope mtls needs client certificates",
		"upstream: http://x\njwt: {issuer: x}\n":     ":2:15: issuer, audience and claim",
		"upstream: http://x\nscope: header:Cookie\n": ":2:8: scope header:Cookie would keep credentials",
	} {
		name := clitest.WriteFile(t, file)
		got := clitest.Run(t, "proxy", "--config="+name, "--check", "--offline")
		clitest.Want(t, "exit code", got.Code, cli.ExitRefused)
		clitest.WantText(t, "output", got.Stderr, name+says, "     2 | ", "^")
	}
}
