//go:build unix

package proxycmd

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// The requests of a running proxy are seen from another process, without their keys, and listeners do not keep the
// proxy from ending.
func TestTailOfARunningProxy(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store="+filepath.Join(t.TempDir(), "keys.db"), "--admin=127.0.0.1:0",
		"--scope=header:X-Tenant")
	tail := func(args ...string) <-chan clitest.Result {
		ended := make(chan clitest.Result, 1)
		go func() { ended <- clitest.Run(t, append([]string{"tail", "--admin=" + p.Admin}, args...)...) }()
		return ended
	}
	seen := tail("--limit=1", "--outcome=answer_replayed", "--caller=acme", "--json")
	var got clitest.Result
	for done := false; !done; {
		p.MustPost("secret-key", "amount=1", "X-Tenant", "acme")
		p.MustPost("secret-key", "amount=1", "X-Tenant", "other")
		select {
		case got = <-seen:
			done = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	clitest.Want(t, "exit code: "+got.Stderr, got.Code, cli.ExitOK)
	clitest.WantText(t, "the event", got.Stdout, `"outcome":"answer_replayed"`, `"status":201`, `"scope":"acme"`, `"key":"`)
	clitest.Want(t, "lines", strings.Count(got.Stdout, "\n"), 1)
	if strings.Contains(got.Stdout+got.Stderr, "secret-key") {
		t.Errorf("the key is shown: %s", got.Stdout)
	}
	wrong := clitest.WaitFor(t, tail("--outcome=replayed"), "the refusal")
	clitest.Want(t, "exit code", wrong.Code, cli.ExitRefused)
	clitest.WantText(t, "the refusal", wrong.Stderr, "unknown outcome", "answer_replayed")

	res, err := p.Client.Get(p.Admin + "/events")
	clitest.Must(t, err)
	defer res.Body.Close()
	p.Signal(syscall.SIGTERM)
	clitest.Want(t, "exit code of the proxy", p.Exit(), cli.ExitOK)
}
