package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }

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
		{"help", []string{"--help"}, cli.ExitOK, []string{"proxy", "Idempotency-Key"}},
		{"help of a command", []string{"proxy", "--help"}, cli.ExitOK, []string{
			"RETRYSAFE_UPSTREAM", "Examples:", "The file of the certificate chain",
		}},
		{"a schema", []string{"proxy", "--schema"}, cli.ExitOK, []string{`"$schema"`, `"in_flight"`}},
		{"version", []string{"version"}, cli.ExitOK, []string{"retrysafe ", "go1."}},
		{
			"licenses",
			[]string{"version", "--licenses"},
			cli.ExitOK,
			[]string{"Retrysafe", "Apache License", "the Go standard library", "modernc.org/sqlite"},
		},
		{"no command", nil, cli.ExitRefused, []string{"proxy"}},
		{"an unknown command", []string{"prxy"}, cli.ExitRefused, []string{"prxy", "--help"}},
		{"an unknown flag", []string{"proxy", "--upstraem=x"}, cli.ExitRefused, []string{"--upstraem"}},
		{
			"a duration without a unit",
			[]string{"keys", "list", "--store=x", "--older-than=30"},
			cli.ExitRefused,
			[]string{`--older-than: "30" is not a duration: write a number and a unit`, "30d"},
		},
		{"no upstream", []string{"proxy"}, cli.ExitRefused, []string{"--upstream http://localhost:3000"}},
		{
			"an upstream without scheme",
			[]string{"proxy", "--upstream=localhost:3000"},
			cli.ExitRefused,
			[]string{"--upstream", "http://host:port"},
		},
		{
			"an unknown store",
			[]string{"proxy", up, "--store=mongodb://u:secret@h/db"},
			cli.ExitRefused,
			[]string{"mongodb", "SQLite", "postgres://", "redis://", "memory:"},
		},
		{"a store with a schema that cannot be", []string{
			"proxy", up,
			"--store=postgres://u:secret@h/db?schema=pg_x",
		}, cli.ExitRefused, []string{"pg_x", "lower-case"}},
		{
			"a schema that SQL reserves",
			[]string{"migrate", "up", "--store=postgres://u:secret@h/db?schema=user"},
			cli.ExitRefused,
			[]string{`"user"`, "reserves the word"},
		},
		{"a schema that SQL reserves, by its flag", []string{
			"migrate", "up", "--store=postgres://h/db",
			"--schema=full",
		}, cli.ExitRefused, []string{`"full"`, "reserves the word"}},
		{
			"a schema that SQL reserves, to print",
			[]string{"migrate", "print", "--schema=order"},
			cli.ExitRefused,
			[]string{`"order"`, "reserves the word"},
		},
		{
			"grants for all roles",
			[]string{"migrate", "print", "--role=public"},
			cli.ExitRefused,
			[]string{`"public" cannot be the name of a role`},
		},
		{
			"a store whose password is not written right",
			[]string{"proxy", up, "--store=postgres://u:secret/x@h/db"},
			cli.ExitRefused,
			[]string{"%2F", "PGPASSWORD"},
		},
		{
			"a store in no directory",
			[]string{"proxy", up, "--store=/nowhere/at/all/keys.db"},
			cli.ExitRefused,
			[]string{"/nowhere/at/all", "does not exist"},
		},
		{"a store that is a directory", []string{"proxy", up, "--store=/tmp"}, cli.ExitRefused, []string{"is a directory"}},
		{"migrate without a word", []string{"migrate"}, cli.ExitRefused, []string{"up", "status", "print"}},
		{"migrate without a store", []string{"migrate", "up"}, cli.ExitRefused, []string{"--store"}},
		{"migrate help", []string{"migrate", "--help"}, cli.ExitOK, []string{"Examples:", "--role app"}},
		{
			"one role for both",
			[]string{"migrate", "print", "--role=a", "--maintenance-role=a"},
			cli.ExitRefused,
			[]string{"leave --role out"},
		},
		{
			"one role for proxy and service",
			[]string{"migrate", "up", "--store=postgres://h/db", "--role=a", "--service-role=a"},
			cli.ExitRefused,
			[]string{"leave --service-role out"},
		},
		{
			"one role for owner and service",
			[]string{"migrate", "print", "--service-role=a", "--maintenance-role=a"},
			cli.ExitRefused,
			[]string{"leave --service-role out"},
		},
		{"sweep without a store", []string{"sweep"}, cli.ExitRefused, []string{"--store"}},
		{"sweep memory", []string{"sweep", "--store=memory:"}, cli.ExitRefused, []string{"swept there"}},
		{
			"sweep a file that is not there",
			[]string{"sweep", "--store=nowhere.db"},
			cli.ExitRefused,
			[]string{"no such file"},
		},
		{
			"sweep too often",
			[]string{"sweep", "--store=postgres://h/db", "--every=1ms"},
			cli.ExitRefused,
			[]string{"once", "1m"},
		},
		{
			"sweep less than nothing",
			[]string{"sweep", "--store=postgres://h/db", "--limit=-1"},
			cli.ExitRefused,
			[]string{"--limit must not be negative"},
		},
		{
			"list less than nothing",
			[]string{"keys", "list", "--store=postgres://h/db", "--limit", "-1"},
			cli.ExitRefused,
			[]string{"--limit must not be negative"},
		},
		{
			"list letters less than nothing",
			[]string{"outbox", "list", "--store=postgres://h/db", "--limit=-1"},
			cli.ExitRefused,
			[]string{"--limit must not be negative"},
		},
		{
			"a limit in words",
			[]string{"keys", "list", "--store=postgres://h/db", "--limit=ten"},
			cli.ExitRefused,
			[]string{"--limit", `"ten" is not a whole number`},
		},
		{"probe help", []string{"probe", "--help"}, cli.ExitOK, []string{"probe init --curl", "--explain", "exit status"}},
		{
			"help of a run of the probe",
			[]string{"probe", "run", "--help"},
			cli.ExitOK,
			[]string{"--allow-remote", "--html", "--only"},
		},
		{"probe without a recipe", []string{"probe"}, cli.ExitRefused, []string{"probe init"}},
		{"demo in a file", []string{"demo", "--store=keys.db"}, cli.ExitRefused, []string{"postgres://"}},
		{
			"an unknown scope",
			[]string{"proxy", up, "--scope=user"},
			cli.ExitRefused,
			[]string{"user", "credential", "header:NAME", "jwt:", "mtls", "none"},
		},
		{"a scope without a name", []string{"proxy", up, "--scope=header:"}, cli.ExitRefused, []string{"header:NAME"}},
		{"mtls without certificates", []string{"proxy", up, "--scope=mtls"}, cli.ExitRefused, []string{"--client-ca"}},
		{"an issuer without tokens", []string{"proxy", up, "--jwt-issuer=x"}, cli.ExitRefused, []string{"jwt:JWKS-URL"}},
		{"a certificate without key", []string{"proxy", up, "--tls-cert=x"}, cli.ExitRefused, []string{"key"}},
		{
			"a certificate that is not there",
			[]string{"proxy", up, "--tls-cert=x", "--tls-key=y"},
			cli.ExitRefused,
			[]string{"tls", "x"},
		},
		{"an address that is none", []string{"proxy", up, "--listen=8080"}, cli.ExitRefused, []string{"--listen", ":port"}},
		{"no time to end", []string{"proxy", up, "--grace=0s"}, cli.ExitRefused, []string{"--grace", "more than zero"}},
		{"a log format", []string{"proxy", up, "--log=xml"}, cli.ExitRefused, []string{"json, text"}},
		{"a file that is not there", []string{"proxy", "--config=nowhere.yaml"}, cli.ExitRefused, []string{"nowhere.yaml"}},
		{
			"a file that is wrong",
			[]string{"proxy", file("upstream: http://x\nlisten: 8080\n")},
			cli.ExitRefused,
			[]string{"proxy.yaml:2:9", "listen: 8080", "^", "write host:port"},
		},
		{
			"a short secret",
			[]string{"proxy", up, "--secret-file=" + strings.TrimPrefix(file("short"), "--config=")},
			cli.ExitRefused,
			[]string{"too few", "urandom"},
		},
		{
			"a short secret for the upstream's key",
			[]string{"proxy", up, file("upstream_key_secret: {file: " + strings.TrimPrefix(file("short"), "--config=") +
				"}\ndefaults: {upstream_key: X-Key}\n")},
			cli.ExitRefused,
			[]string{"upstream_key_secret: 5 bytes are too few", "urandom"},
		},
		{
			"a check",
			[]string{"proxy", up, "--check", "--offline"},
			cli.ExitOK,
			[]string{"listen: '127.0.0.1:8080'", "scope: credential", "lease: 30s"},
		},
		{
			"a check of a scope",
			[]string{"proxy", up, "--check", "--offline", "--scope=aws-access-key"},
			cli.ExitOK,
			[]string{"scope: aws-access-key"},
		},
		{"offline, but no check", []string{"proxy", up, "--offline"}, cli.ExitRefused, []string{"--check --offline"}},
		{
			"cookies for a scope",
			[]string{"proxy", up, "--scope=header:Cookie"},
			cli.ExitRefused,
			[]string{"--scope", "header:X-Tenant"},
		},
		{"stats of nothing", []string{"stats"}, cli.ExitRefused, []string{"--admin http://", "--store"}},
		{"stats at no address", []string{"stats", "--admin=127.0.0.1:81"}, cli.ExitRefused, []string{"write http://"}},
		{"a scan of no store", []string{"stats", "--admin=http://h", "--scan"}, cli.ExitRefused, []string{"--store"}},
		{"stats without time", []string{"stats", "--store=x", "--timeout=0s"}, cli.ExitRefused, []string{"--timeout"}},
		{"bash", []string{"completion", "bash"}, cli.ExitOK, []string{"complete ", "--upstream", "proxy"}},
		{"zsh", []string{"completion", "zsh"}, cli.ExitOK, []string{"#compdef retrysafe\n", "compdef _retrysafe retrysafe"}},
		{"fish", []string{"completion", "fish"}, cli.ExitOK, []string{"complete -c retrysafe", "-l upstream"}},
		{"man", []string{"man"}, cli.ExitOK, []string{".SH RETRYSAFE KEYS RESOLVE", "\\-\\-upstream", "\\-\\-reason"}},
		{"another shell", []string{"completion", "csh"}, cli.ExitRefused, []string{"bash"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := clitest.Run(t, c.args...)
			clitest.Want(t, "exit code", got.Code, c.code)
			clitest.WantText(t, "output", got.Stdout+got.Stderr, c.says...)
			for _, never := range []string{"goroutine", "panic", "u:secret"} {
				if strings.Contains(got.Stdout+got.Stderr, never) {
					t.Errorf("output shows %q:\n%s", never, got.Stderr)
				}
			}
		})
	}
}

func TestFlagsComeFromTheEnvironmentAndWinOverTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "proxy.yaml")
	os.WriteFile(name, []byte("upstream: http://file:1\nscope: none\nlisten: :1\n"), 0o600)
	got := clitest.RunWith(t, []string{"RETRYSAFE_UPSTREAM=http://environment:1", "RETRYSAFE_CONFIG=" + name},
		"proxy", "--check", "--offline", "--listen=:2")
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "output", got.Stdout, "http://environment:1", "scope: none", "listen: ':2'")
}

// Seen to fail with flags of the type bool: metrics were on, and need --admin.
func TestAFlagThatIsFalseWinsToo(t *testing.T) {
	name := filepath.Join(t.TempDir(), "proxy.yaml")
	os.WriteFile(name, []byte("upstream: http://file:1\nmetrics: true\nh2c: true\n"), 0o600)
	got := clitest.RunWith(t, []string{"RETRYSAFE_METRICS=false"}, "proxy", "--config="+name, "--check", "--offline",
		"--h2c=false", "--grace=1d")
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "output", got.Stdout+got.Stderr, "grace: 24h")
	if strings.Contains(got.Stdout, "h2c: true") {
		t.Errorf("--h2c=false is not in force:\n%s", got.Stdout)
	}
}

// The secret itself is nowhere.
func TestTheSecretIsNotPrinted(t *testing.T) {
	name := filepath.Join(t.TempDir(), "proxy.yaml")
	os.WriteFile(name, []byte("upstream: http://file:1\nsecret: {env: MY_SECRET}\n"), 0o600)
	got := clitest.RunWith(t, []string{"MY_SECRET=correct horse battery"}, "proxy", "--check", "--offline",
		"--config="+name)
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "output", got.Stdout, "MY_SECRET", "secret:")
	os.WriteFile(name, []byte("upstream: http://file:1\nsecret: correct horse battery\n"), 0o600)
	refused := clitest.Run(t, "proxy", "--config="+name)
	clitest.Want(t, "exit code", refused.Code, cli.ExitRefused)
	clitest.WantText(t, "output", refused.Stderr, "proxy.yaml:2:9: ", "env:")
	if strings.Contains(got.Stdout+got.Stderr+refused.Stderr, "horse") {
		t.Errorf("the secret is shown:\n%s", got.Stdout+got.Stderr+refused.Stderr)
	}
}

func TestBashCompletes(t *testing.T) {
	script := clitest.Run(t, "completion", "bash").Stdout
	for line, wanted := range map[string]string{
		"retrysafe prox": "proxy", "retrysafe probe in": "init", "retrysafe probe --ht": "--html",
		"retrysafe proxy --ups": "--upstream", "retrysafe completion f": "fish",
		"retrysafe migrate st": "status", "retrysafe migrate up --sto": "--store",
		"retrysafe migrate print --serv": "--service-role", "retrysafe stats --sc": "--scan",
	} {
		words := strings.Fields(line)
		try := fmt.Sprintf("%s\nCOMP_WORDS=(%s)\nCOMP_CWORD=%d\n_retrysafe\necho \"${COMPREPLY[@]}\"", script, line,
			len(words)-1)
		out, err := exec.Command("bash", "-c", try).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		clitest.Want(t, line, strings.TrimSpace(string(out)), wanted)
	}
}
