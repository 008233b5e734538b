package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// binary is this command, built once.
var binary string

func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "retrysafe-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(directory, "retrysafe")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, ".") // as releases are built, so that one build serves all tests
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(directory)
	os.Exit(code)
}

// ran is a command that has ended.
type ran struct {
	code           int
	stdout, stderr string
}

func runBinary(t *testing.T, args ...string) ran {
	t.Helper()
	return runWith(t, nil, args...)
}

func runWith(t *testing.T, environment []string, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), binary, args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	command.Env = append(os.Environ(), environment...)
	command.Dir = t.TempDir()
	command.Run()
	return ran{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func wantText(t *testing.T, what, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, got)
		}
	}
}

func TestCommandLine(t *testing.T) {
	up := "--upstream=http://127.0.0.1:1"
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "proxy.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "--config=" + name
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"help", []string{"--help"}, exitOK, []string{"proxy", "Idempotency-Key"}},
		{"help of a command", []string{"proxy", "--help"}, exitOK, []string{"RETRYSAFE_UPSTREAM", "Examples:"}},
		{"version", []string{"version"}, exitOK, []string{"retrysafe ", "go1."}},
		{"licenses", []string{"version", "--licenses"}, exitOK, []string{"Retrysafe", "Apache License", "the Go standard library", "modernc.org/sqlite"}},
		{"no command", nil, exitRefused, []string{"proxy"}},
		{"an unknown command", []string{"prxy"}, exitRefused, []string{"prxy", "--help"}},
		{"an unknown flag", []string{"proxy", "--upstraem=x"}, exitRefused, []string{"--upstraem"}},
		{"no upstream", []string{"proxy"}, exitRefused, []string{"--upstream http://localhost:3000"}},
		{"an upstream without scheme", []string{"proxy", "--upstream=localhost:3000"}, exitRefused, []string{"--upstream", "http://host:port"}},
		{"an unknown store", []string{"proxy", up, "--store=mysql://u:secret@h/db"}, exitRefused, []string{"mysql", "SQLite", "postgres://", "memory:"}},
		{"a store with a schema that cannot be", []string{"proxy", up, "--store=postgres://u:secret@h/db?schema=pg_x"}, exitRefused, []string{"pg_x", "lower-case"}},
		{"a schema that SQL reserves", []string{"migrate", "up", "--store=postgres://u:secret@h/db?schema=user"}, exitRefused, []string{`"user"`, "reserves the word"}},
		{"a schema that SQL reserves, by its flag", []string{"migrate", "up", "--store=postgres://h/db", "--schema=full"}, exitRefused, []string{`"full"`, "reserves the word"}},
		{"a schema that SQL reserves, to print", []string{"migrate", "print", "--schema=order"}, exitRefused, []string{`"order"`, "reserves the word"}},
		{"grants for everybody", []string{"migrate", "print", "--role=public"}, exitRefused, []string{`"public" is no name of a role`}},
		{"a store whose password is not written right", []string{"proxy", up, "--store=postgres://u:secret/x@h/db"}, exitRefused, []string{"%2F", "PGPASSWORD"}},
		{"a store in no directory", []string{"proxy", up, "--store=/nowhere/at/all/keys.db"}, exitRefused, []string{"/nowhere/at/all", "does not exist"}},
		{"a store that is a directory", []string{"proxy", up, "--store=/tmp"}, exitRefused, []string{"is a directory"}},
		{"migrate without a word", []string{"migrate"}, exitRefused, []string{"up", "status", "print"}},
		{"migrate without a store", []string{"migrate", "up"}, exitRefused, []string{"--store"}},
		{"migrate help", []string{"migrate", "--help"}, exitOK, []string{"Examples:", "--role app"}},
		{"one role for both", []string{"migrate", "print", "--role=a", "--maintenance-role=a"}, exitRefused, []string{"leave --role out"}},
		{"sweep without a store", []string{"sweep"}, exitRefused, []string{"--store"}},
		{"sweep memory", []string{"sweep", "--store=memory:"}, exitRefused, []string{"swept there"}},
		{"sweep a file that is not there", []string{"sweep", "--store=nowhere.db"}, exitRefused, []string{"no such file"}},
		{"sweep too often", []string{"sweep", "--store=postgres://h/db", "--every=1ms"}, exitRefused, []string{"once", "1m"}},
		{"sweep less than nothing", []string{"sweep", "--store=postgres://h/db", "--limit=-1"}, exitRefused, []string{"--limit"}},
		{"probe help", []string{"probe", "--help"}, exitOK, []string{"probe init --curl", "--explain", "exit status"}},
		{"help of a run of the probe", []string{"probe", "run", "--help"}, exitOK, []string{"--allow-remote", "--html", "--only"}},
		{"probe without a recipe", []string{"probe"}, exitRefused, []string{"probe init"}},
		{"demo in a file", []string{"demo", "--store=keys.db"}, exitRefused, []string{"postgres://"}},
		{"an unknown scope", []string{"proxy", up, "--scope=user"}, exitRefused, []string{"user", "credential", "header:NAME", "jwt:", "mtls", "none"}},
		{"a scope without a name", []string{"proxy", up, "--scope=header:"}, exitRefused, []string{"header:NAME"}},
		{"mtls without certificates", []string{"proxy", up, "--scope=mtls"}, exitRefused, []string{"--client-ca"}},
		{"an issuer without tokens", []string{"proxy", up, "--jwt-issuer=x"}, exitRefused, []string{"jwt:JWKS-URL"}},
		{"a certificate without key", []string{"proxy", up, "--tls-cert=x"}, exitRefused, []string{"key"}},
		{"a certificate that is not there", []string{"proxy", up, "--tls-cert=x", "--tls-key=y"}, exitRefused, []string{"tls", "x"}},
		{"an address that is none", []string{"proxy", up, "--listen=8080"}, exitRefused, []string{"--listen", ":port"}},
		{"a log format", []string{"proxy", up, "--log=xml"}, exitRefused, []string{"json, text"}},
		{"a file that is not there", []string{"proxy", "--config=nowhere.yaml"}, exitRefused, []string{"nowhere.yaml"}},
		{"a file that is wrong", []string{"proxy", file("upstream: http://x\nlisten: 8080\n")}, exitRefused, []string{"proxy.yaml:2:9", "listen: 8080", "^", "write host:port"}},
		{"a short secret", []string{"proxy", up, "--secret-file=" + strings.TrimPrefix(file("short"), "--config=")}, exitRefused, []string{"too few", "urandom"}},
		{"a check", []string{"proxy", up, "--check", "--offline"}, exitOK, []string{"listen: '127.0.0.1:8080'", "scope: credential", "lease: 30s"}},
		{"a check of a scope", []string{"proxy", up, "--check", "--offline", "--scope=aws-access-key"}, exitOK, []string{"scope: aws-access-key"}},
		{"offline, but no check", []string{"proxy", up, "--offline"}, exitRefused, []string{"--check --offline"}},
		{"cookies for a scope", []string{"proxy", up, "--scope=header:Cookie"}, exitRefused, []string{"--scope", "header:X-Tenant"}},
		{"bash", []string{"completion", "bash"}, exitOK, []string{"complete ", "--upstream", "proxy"}},
		{"zsh", []string{"completion", "zsh"}, exitOK, []string{"bashcompinit"}},
		{"fish", []string{"completion", "fish"}, exitOK, []string{"complete -c retrysafe", "-l upstream"}},
		{"another shell", []string{"completion", "csh"}, exitRefused, []string{"bash"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := runBinary(t, c.args...)
			want(t, "exit code", got.code, c.code)
			wantText(t, "output", got.stdout+got.stderr, c.says...)
			for _, never := range []string{"goroutine", "panic", "u:secret"} {
				if strings.Contains(got.stdout+got.stderr, never) {
					t.Errorf("output shows %q:\n%s", never, got.stderr)
				}
			}
		})
	}
}

func TestFlagsComeFromTheEnvironmentAndWinOverTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "proxy.yaml")
	os.WriteFile(name, []byte("upstream: http://file:1\nscope: none\nlisten: :1\n"), 0o600)
	got := runWith(t, []string{"RETRYSAFE_UPSTREAM=http://environment:1", "RETRYSAFE_CONFIG=" + name}, "proxy", "--check", "--offline", "--listen=:2")
	want(t, "exit code", got.code, exitOK)
	wantText(t, "output", got.stdout, "http://environment:1", "scope: none", "listen: ':2'")
}

// The secret itself is nowhere.
func TestTheSecretIsNotPrinted(t *testing.T) {
	name := filepath.Join(t.TempDir(), "proxy.yaml")
	os.WriteFile(name, []byte("upstream: http://file:1\nsecret: {env: MY_SECRET}\n"), 0o600)
	got := runWith(t, []string{"MY_SECRET=correct horse battery"}, "proxy", "--check", "--offline", "--config="+name)
	want(t, "exit code", got.code, exitOK)
	wantText(t, "output", got.stdout, "MY_SECRET", "secret:")
	os.WriteFile(name, []byte("upstream: http://file:1\nsecret: correct horse battery\n"), 0o600)
	refused := runBinary(t, "proxy", "--config="+name)
	want(t, "exit code", refused.code, exitRefused)
	wantText(t, "output", refused.stderr, "proxy.yaml:2:9: ", "env:")
	if strings.Contains(got.stdout+got.stderr+refused.stderr, "horse") {
		t.Errorf("the secret is shown:\n%s", got.stdout+got.stderr+refused.stderr)
	}
}

func TestBashCompletes(t *testing.T) {
	script := runBinary(t, "completion", "bash").stdout
	for line, wanted := range map[string]string{
		"retrysafe prox": "proxy", "retrysafe probe in": "init", "retrysafe probe --ht": "--html", "retrysafe proxy --ups": "--upstream", "retrysafe completion f": "fish",
		"retrysafe migrate st": "status", "retrysafe migrate up --sto": "--store",
	} {
		words := strings.Fields(line)
		try := fmt.Sprintf("%s\nCOMP_WORDS=(%s)\nCOMP_CWORD=%d\n_retrysafe\necho \"${COMPREPLY[@]}\"", script, line, len(words)-1)
		out, err := exec.Command("bash", "-c", try).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		want(t, line, strings.TrimSpace(string(out)), wanted)
	}
}
