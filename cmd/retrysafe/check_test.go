//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "proxy.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// If every line says "ok", the proxy starts and reaches its upstream.
//
// Seen to fail with each trial taken out, and with a file that is opened to see whether it is there.
func TestCheckTriesWhatIsNamed(t *testing.T) {
	t.Parallel()
	up, keys := newAPI(t), filepath.Join(t.TempDir(), "keys.db")
	flags := []string{"proxy", "--check", "--store=" + keys}

	fresh := runBinary(t, append(flags, "--upstream="+up.URL)...)
	want(t, "exit code with a store to be made", fresh.code, exitOK)
	wantText(t, "output", fresh.stderr, "ok      store "+keys+": does not exist yet", "ok      upstream "+up.URL+": accepts connections")
	wantText(t, "configuration", fresh.stdout, "lease: 30s", "in_flight: 'wait:5s'")
	if _, err := os.Stat(keys); err == nil {
		t.Error("the check has made the store")
	}

	p := startProxy(t, "--upstream="+up.URL, "--store="+keys)
	taken := runBinary(t, append(flags, "--upstream="+up.URL)...)
	want(t, "exit code beside a running proxy", taken.code, exitOK)
	wantText(t, "output", taken.stderr, "store "+keys+": not tried: another process uses it")
	p.command.Process.Kill()
	p.exit()

	down := runBinary(t, append(flags, "--upstream=http://127.0.0.1:1")...)
	want(t, "exit code without an upstream", down.code, exitFailed)
	wantText(t, "output", down.stderr, "ok      store "+keys+": takes keys",
		"FAILED  upstream http://127.0.0.1:1: cannot connect: ", "start it, or correct its address", "--offline")
	offline := runBinary(t, append(flags, "--upstream=http://127.0.0.1:1", "--offline")...)
	want(t, "exit code offline", offline.code, exitOK)
	want(t, "output offline", offline.stderr, "")

	if err := os.WriteFile(keys, []byte(strings.Repeat("something else ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := runBinary(t, append(flags, "--upstream="+up.URL)...)
	want(t, "exit code with a file that is no store", foreign.code, exitFailed)
	wantText(t, "output", foreign.stderr, "FAILED  store "+keys+": ", "ok      upstream")
}

func TestCheckTriesAServer(t *testing.T) {
	t.Parallel()
	got := runBinary(t, "proxy", "--check", "--upstream="+newAPI(t).URL, "--store=postgres://u:s3cret@127.0.0.1:1/db")
	want(t, "exit code", got.code, exitFailed)
	wantText(t, "output", got.stderr, "FAILED  store postgres://u:xxxxx@127.0.0.1:1/db: ", "nobody listens")
	if strings.Contains(got.stdout+got.stderr, "s3cret") {
		t.Errorf("the password is shown:\n%s", got.stderr)
	}
}

// Seen to fail with the upstream's certificate left unread, and with ca: left out of the trial.
func TestCheckTriesCertificates(t *testing.T) {
	t.Parallel()
	up := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(up.Close)
	a := newAuthority(t)
	known := a.write("upstream.pem", "CERTIFICATE", up.Certificate().Raw)
	for file, code := range map[string]int{
		"store: 'memory:'\nupstream: " + up.URL + "\n":                               exitFailed,
		"store: 'memory:'\nupstream: {url: '" + up.URL + "', ca: '" + known + "'}\n": exitOK,
	} {
		got := runBinary(t, "proxy", "--check", "--config="+writeFile(t, file))
		want(t, "exit code of "+file, got.code, code)
		if code != exitOK {
			wantText(t, "output", got.stderr, "FAILED  upstream", "ca: FILE")
		}
	}
}

func TestCheckFetchesTheKeysOfTokens(t *testing.T) {
	t.Parallel()
	up, login := newAPI(t), newLogin(t)
	for url, code := range map[string]int{login.URL: exitOK, "http://127.0.0.1:1/jwks": exitFailed} {
		got := runBinary(t, "proxy", "--check", "--upstream="+up.URL, "--store=memory:", "--scope=jwt:"+url)
		want(t, "exit code for "+url, got.code, code)
		wantText(t, "output", got.stderr, " scope jwt:"+url+": ")
	}
}

// A stored answer is given to nobody whose login has been revoked meanwhile.
//
// Seen to fail with the setting left out of the proxy's options.
func TestARevokedLoginGetsNoReplay(t *testing.T) {
	t.Parallel()
	up := newAPI(t)
	var revoked atomic.Bool
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if revoked.Load() || r.Header.Get("Authorization") != "Bearer me" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
		}
	}))
	t.Cleanup(login.Close)
	config := writeFile(t, "upstream: "+up.URL+"\nstore: 'memory:'\nauth: "+login.URL+"/whoami\n")
	check := runBinary(t, "proxy", "--check", "--config="+config)
	want(t, "exit code", check.code, exitOK)
	wantText(t, "check", check.stdout+check.stderr, "auth: '"+login.URL+"/whoami'", "ok      auth 127.0.0.1:", "accepts connections")
	p := startProxy(t, "--config="+config)
	want(t, "first", p.mustPost("k", "amount=1").StatusCode, 201)
	want(t, "replay", p.mustPost("k", "amount=1").Header.Get("Idempotent-Replayed"), "true")
	revoked.Store(true)
	again := p.mustPost("k", "amount=1")
	want(t, "status after the login is revoked", again.StatusCode, 401)
	wantText(t, "body", again.body, "who are you?")
	login.Close()
	want(t, "status when nobody can be asked", p.mustPost("k", "amount=1").StatusCode, 503)
	want(t, "asked", up.asked.Load(), 1)
	down := runBinary(t, "proxy", "--check", "--config="+config)
	want(t, "exit code when nobody can be asked", down.code, exitFailed)
	wantText(t, "check", down.stderr, "FAILED  auth 127.0.0.1:", "start it, or correct its address")
}

// Seen to fail with Warnings not asked for.
func TestWarningsAreShown(t *testing.T) {
	t.Parallel()
	up := newAPI(t)
	name := writeFile(t, "upstream: "+up.URL+"\nstore: 'memory:'\nroutes:\n  POST /payments:\n    ambiguous: release\n")
	got := runBinary(t, "proxy", "--check", "--config="+name)
	want(t, "exit code", got.code, exitOK)
	wantText(t, "output", got.stderr, "warning: "+name+":5:16: ambiguous: release", "    ambiguous: release\n", "the retry runs it again", "write ambiguous: store")
	line := startProxy(t, "--config="+name).log()
	wantText(t, "log", line, `"level":"WARN"`, `"line":5`, "the retry runs it again")
}

// Seen to fail with the scope read as any text: header:Cookie is accepted.
func TestAScopeIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	for file, says := range map[string]string{
		"upstream: http://x\nscope: mtls\n":          ":2:8: the scope mtls needs client certificates",
		"upstream: http://x\njwt: {issuer: x}\n":     ":2:15: issuer and audience",
		"upstream: http://x\nscope: header:Cookie\n": ":2:8: scope header:Cookie would keep credentials",
	} {
		name := writeFile(t, file)
		got := runBinary(t, "proxy", "--config="+name, "--check", "--offline")
		want(t, "exit code", got.code, exitRefused)
		wantText(t, "output", got.stderr, name+says, "     2 | ", "^")
	}
}

// Seen to fail with // cut off every path.
func TestSQLiteURLs(t *testing.T) {
	directory := t.TempDir()
	t.Chdir(directory)
	for name, path := range map[string]string{
		"keys.db": "keys.db", "sqlite:keys.db": "keys.db", "sqlite:./keys.db": "./keys.db",
		"sqlite:" + directory + "/keys.db": directory + "/keys.db", "sqlite://" + directory + "/keys.db": directory + "/keys.db",
		"sqlite:/keys.db": "/keys.db",
	} {
		ref, err := parseStore(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want(t, name, ref.path, path)
	}
	for name, says := range map[string]string{
		"sqlite://keys.db":   "write sqlite:keys.db",
		"sqlite:///keys.db":  "write sqlite:keys.db for a file in the working directory, or sqlite:/keys.db",
		"sqlite:////keys.db": "sqlite:/keys.db",
		"sqlite:":            "no name",
		"sqlite://":          "no name",
	} {
		_, err := parseStore(name)
		if err == nil {
			t.Errorf("%s is accepted", name)
			continue
		}
		wantText(t, name, err.Error(), says)
	}
}
