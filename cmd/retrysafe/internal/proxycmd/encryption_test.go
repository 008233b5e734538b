//go:build unix

package proxycmd

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
)

// secretAnswer is what the API answers, in a header field and in the body, and what no file may have.
const secretAnswer = "card-4242424242424242"

// hasSecret reports whether the files of a store have the answer.
func hasSecret(t *testing.T, file string) (found bool) {
	t.Helper()
	files, err := filepath.Glob(file + "*")
	clitest.Must(t, err)
	for _, name := range files {
		if text, err := os.ReadFile(name); err == nil { // not the socket
			found = found || bytes.Contains(text, []byte(secretAnswer))
		}
	}
	return found
}

// An encrypted proxy replays what its file does not show, also after a rotation that it has reloaded; the command shows
// it through the proxy, and afterwards with the keyset alone. Seen to fail with Unwrap not asked for in serveKeys.
func TestEncryption(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Card", secretAnswer)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(secretAnswer))
	}))
	t.Cleanup(up.Close)
	dir := t.TempDir()
	file, keyset := filepath.Join(dir, "keys.db"), filepath.Join(dir, "keyset.json")
	command := func(code int, args ...string) string {
		t.Helper()
		r := clitest.Run(t, args...)
		clitest.Want(t, strings.Join(args, " ")+": "+r.Stderr, r.Code, code)
		return r.Stdout + r.Stderr
	}
	command(0, "keyset", "new", keyset)
	text := "upstream: " + up.URL + "\nencryption: {file: " + keyset + "}\nscope: none\n"
	p := startReloadable(t, text, "--store="+file)
	post := func(key string) {
		t.Helper()
		clitest.Want(t, "answer", p.MustPost(key, "").Text, secretAnswer)
	}
	post("1")
	post("1")
	for _, step := range []string{"rotate", "promote"} {
		command(0, "keyset", step, keyset)
		p.Signal(syscall.SIGHUP)
		p.Line(wasReloaded)
		post("1")
		post("2")
		post("2")
	}
	clitest.WantText(t, "through the proxy", command(0, "keys", "show", "1", "--store="+file, "--answer"), secretAnswer)

	first := strings.Fields(strings.Split(command(0, "keyset", "list", keyset), "\n")[1])[0]
	command(0, "keyset", "remove", keyset, first)
	clitest.Must(t, os.Rename(keyset, keyset+".one"))
	p.write("upstream: " + up.URL + "\nscope: none\n")
	p.Signal(syscall.SIGHUP)
	clitest.WantText(t, "error", p.Line(notReloaded)["error"].(string), "encryption.plaintext cannot change")
	p.write(strings.Replace(text, keyset, keyset+".one", 1)) // too early: the first answer needs the first key
	p.Signal(syscall.SIGHUP)
	p.Line(wasReloaded)
	if got := p.MustPost("1", ""); got.StatusCode != http.StatusServiceUnavailable || strings.Contains(got.Text, secretAnswer) {
		t.Errorf("without its key: %d %s", got.StatusCode, got.Text)
	}
	post("3")
	post("3")
	p.Signal(syscall.SIGTERM)
	clitest.Want(t, "exit", p.Exit(), 0)
	if hasSecret(t, file) {
		t.Error("the file has the answer in plaintext")
	}
	clitest.WantText(t, "without keys", command(2, "keys", "show", "3", "--store="+file, "--answer"), "--encryption")
	clitest.WantText(t, "with keys",
		command(0, "keys", "show", "3", "--store="+file, "--answer", "--encryption="+keyset+".one"), secretAnswer)
}

// Without encryption the file has the answer, so that the test above looks where answers are.
func TestTheFileHasTheAnswerWithoutEncryption(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(secretAnswer))
	}))
	t.Cleanup(up.Close)
	file := filepath.Join(t.TempDir(), "keys.db")
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--scope=none", "--store="+file)
	p.MustPost("1", "")
	p.Signal(syscall.SIGTERM)
	clitest.Want(t, "exit", p.Exit(), 0)
	if !hasSecret(t, file) {
		t.Error("the file has no answer, also without encryption")
	}
}

// exec encrypts what it keeps, and prints it again.
func TestExecEncrypts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, keyset := filepath.Join(dir, "keys.db"), filepath.Join(dir, "keyset.json")
	clitest.Want(t, "new", clitest.Run(t, "keyset", "new", keyset).Code, 0)
	for range 2 {
		r := clitest.Run(t, "exec", "--key=k", "--store="+file, "--encryption="+keyset, "--", "echo", secretAnswer)
		clitest.Want(t, "output: "+r.Stderr, r.Stdout, secretAnswer+"\n")
	}
	if hasSecret(t, file) {
		t.Error("the file has the output in plaintext")
	}
	if _, err := store.LoadKeyset(file); err == nil || strings.Contains(err.Error(), secretAnswer) {
		t.Errorf("a file that is no keyset: %v", err)
	}
}
