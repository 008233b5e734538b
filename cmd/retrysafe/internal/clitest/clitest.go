// Package clitest is what the tests of the commands share: the program, processes of it, an API to put behind a proxy,
// and a PostgreSQL server.
package clitest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Binary is the path of the program under test. Main sets it.
var Binary string

// Postgres is the PostgreSQL server of all tests that do not harm it.
var Postgres servers.SharedPostgres

// Main builds the program, runs the tests, and ends the process.
func Main(m *testing.M) {
	var err error
	if Binary, err = servers.Retrysafe(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} { // for stand-ins of its services
		_ = os.Setenv(name, "test") // a name that can be set
	}
	os.Exit(m.Run())
}

// Result is what a command that has ended leaves.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Run runs the program in an empty directory until it ends.
func Run(t *testing.T, args ...string) Result {
	t.Helper()
	return RunWith(t, nil, args...)
}

// RunWith is Run with more variables in the environment.
func RunWith(t *testing.T, environment []string, args ...string) Result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), Binary, args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	command.Env = append(os.Environ(), environment...)
	command.Dir = t.TempDir()
	_ = command.Run() // its exit code tells
	return Result{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Must ends the test if there is an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Want fails the test if got is not what is wanted.
func Want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// WantText fails the test if got lacks one of the parts.
func WantText(t *testing.T, what, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, got)
		}
	}
}

// WriteFile writes the configuration of a proxy, and returns its path.
func WriteFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "proxy.yaml")
	Must(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// Migrated returns the URL of a new database with a schema.
func Migrated(t *testing.T) string {
	t.Helper()
	url := Postgres.Get(t).Database(t)
	if got := Run(t, "migrate", "up", "--store="+url); got.Code != 0 {
		t.Fatalf("exit code %d: %s", got.Code, got.Stderr)
	}
	return url
}

// WithParam adds a parameter to a database's URL.
func WithParam(url, param string) string {
	if strings.Contains(url, "?") {
		return url + "&" + param
	}
	return url + "?" + param
}

// AsUser is a database's URL for another role.
func AsUser(url, role string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	_, host, ok := strings.Cut(rest, "@")
	if !ok {
		host = rest
	}
	return scheme + "://" + role + "@" + host
}
