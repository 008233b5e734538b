//go:build unix

package probecmd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// in runs the binary in a directory, with a standard input.
func in(t *testing.T, dir, stdin string, args ...string) clitest.Result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), clitest.Binary, args...)
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(stdin), &stdout, &stderr
	command.Env = append(os.Environ(), "PROBE_CREDENTIAL_A=me")
	command.Dir = dir
	command.Run()
	return clitest.Result{Code: command.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// What a newcomer does: two commands. Seen to fail with the generators left out.
func TestFromACurlLineToAReport(t *testing.T) {
	t.Parallel()
	s, dir := newShop(t), t.TempDir()
	p := clitest.StartProxy(t, "--upstream="+s.URL, "--store=memory:")
	made := in(t, dir, "", "probe", "init", "--curl",
		"curl -sS "+p.URL+"/payments -H 'Authorization: Bearer s3cret' -H 'Idempotency-Key: \"x\"' --json "+
			"'{\"amount\": 500}' | jq .")
	clitest.Want(t, "exit code", made.Code, cli.ExitOK)
	clitest.WantText(t, "what it says", made.Stderr, "recipe.yaml", "export PROBE_CREDENTIAL_A=",
		"what follows Bearer", "retrysafe probe")
	text, _ := os.ReadFile(filepath.Join(dir, "recipe.yaml"))
	clitest.WantText(t, "recipe", string(text), `{"amount": {{amount}}}`, "${PROBE_CREDENTIAL_A}")
	if strings.Contains(string(text)+made.Stderr, "s3cret") {
		t.Errorf("the credential is in the recipe:\n%s", text)
	}
	got := in(t, dir, "", "probe", "--only=B01,B02,B03,B04")
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "table", got.Stdout, "4 PASS")
}

func TestInitNeverWritesOverAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "payments.yaml")
	os.WriteFile(name, []byte("mine"), 0o600)
	args := []string{"probe", "init", "payments.yaml"}
	curl := "curl localhost:8080/payments -d amount=5\n"
	refused := in(t, dir, curl, args...)
	clitest.Want(t, "exit code", refused.Code, cli.ExitRefused)
	clitest.WantText(t, "error", refused.Stderr, "payments.yaml exists already", "--force")
	kept, _ := os.ReadFile(name)
	clitest.Want(t, "file", string(kept), "mine")
	clitest.Want(t, "exit code", in(t, dir, curl, append(args, "--force")...).Code, cli.ExitOK)
	written, _ := os.ReadFile(name)
	clitest.WantText(t, "file", string(written), "amount={{amount}}")
	shown := in(t, dir, curl, "probe", "init", "-")
	clitest.Want(t, "standard output", shown.Stdout, string(written))
}

func TestInitFromOpenAPI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "api.yaml"), []byte(`openapi: 3.0.3
servers: [{url: http://localhost:9000/v1}]
paths:
  /payments:
    post:
      operationId: createPayment
      requestBody: {content: {application/json: {schema: {properties: {amount: {type: integer}}}}}}
`), 0o600)
	got := in(t, dir, "", "probe", "init", "-", "--openapi=api.yaml", "--operation=createPayment",
		"--identity=Location", "--profile=stripe", "--target=http://127.0.0.1:1/x")
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "recipe", got.Stdout, "target: http://127.0.0.1:1/x", "path: /v1/payments", "{{amount}}",
		"{header: Location}", "profile: stripe")
	os.WriteFile(filepath.Join(dir, "two.yaml"), []byte(`openapi: 3.0.3
servers: [{url: http://localhost:9000}]
paths:
  /payments: {post: {operationId: createPayment}}
  /refunds: {post: {operationId: createRefund}}
`), 0o600)
	for _, args := range [][]string{{"--all"}, {"--operation=createRefund", "--operation=POST /payments"}} {
		both := in(t, dir, "", append([]string{"probe", "init", "-", "--openapi=two.yaml"}, args...)...)
		clitest.WantText(t, "routes", both.Stdout, "- name: createPayment", "- name: createRefund", "path: /refunds")
		clitest.Want(t, "exit code", both.Code, cli.ExitOK)
	}
	odd := in(t, dir, "", "probe", "init", "-", "--openapi=two.yaml", "--all", "--slow=/slow")
	clitest.Want(t, "exit code", odd.Code, cli.ExitRefused)
	clitest.WantText(t, "error", odd.Stderr, "2 routes")
	wrong := in(t, dir, "", "probe", "init", "--openapi=api.yaml", "--operation=createPaymnt")
	clitest.Want(t, "exit code", wrong.Code, cli.ExitRefused)
	clitest.WantText(t, "error", wrong.Stderr, "did you mean createPayment?", "POST /payments")
}

func TestInitRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		stdin string
		args  []string
		says  string
	}{
		{"nothing", "", nil, "not a curl command"},
		{"a GET", "curl localhost:1/a", nil, "such as a POST"},
		{"an open quote", "curl 'localhost:1/a -d x", nil, "a quote is not closed"},
		{"an option that means nothing here", "curl -F a=b localhost:1/a", nil, "-F"},
		{"an operation of nothing", "", []string{"--operation=x"}, "--openapi FILE"},
		{"all of nothing", "", []string{"--all"}, "--openapi FILE"},
		{"all and one", "", []string{"--openapi=y", "--all", "--operation=x"}, "give one"},
		{"all of gRPC", "", []string{"--grpc=grpc://127.0.0.1:1", "--all"}, "one method"},
		{"two sources", "", []string{"--curl=x", "--openapi=y"}, "give one"},
		{"a document that is not there", "", []string{"--openapi=y"}, "y"},
		{"a profile", "curl localhost:1/a -d x", []string{"--profile=y"}, "ietf-strict"},
		{"a count that is no path", "curl localhost:1/a -d x", []string{"--count=a"}, "begins with a slash"},
		{
			"a count with a pointer that is none", "curl localhost:1/a -d x",
			[]string{"--count=/a#total"},
			"is not a JSON pointer",
		},
		{"a slow path that is none", "curl localhost:1/a -d x", []string{"--slow=a"}, "--slow a"},
		{
			"two callers of whom none says who it is", "curl localhost:1/a -d x",
			[]string{"--second-caller"},
			"Authorization: Bearer me",
		},
		{"a target", "curl localhost:1/a -d x", []string{"--target=y"}, "http://127.0.0.1:8080"},
		{"a header that cannot be", "curl localhost:1/a -d x", []string{"--identity=a b"}, "Idempotency-Key"},
	} {
		dir := t.TempDir()
		got := in(t, dir, c.stdin, append([]string{"probe", "init"}, c.args...)...)
		clitest.Want(t, c.name+": exit code", got.Code, cli.ExitRefused)
		clitest.WantText(t, c.name, got.Stderr, c.says)
		left, _ := os.ReadDir(dir)
		clitest.Want(t, c.name+": files", len(left), 0)
	}
}
