//go:build unix

package keys

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// An operation that has ended runs again, once, while a proxy has the store open: by Remote for a file, and beside the
// proxy for a server.
func TestKeysReopen(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "keys.db") },
		"postgres": func(t *testing.T) string { _, app := migratedForRole(t); return app },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, at := clitest.NewAPI(t), "--store="+store(t)
			p := clitest.StartProxy(t, "--upstream="+up.URL, at, "--scope=header:X-Tenant")
			post := func(key string) clitest.Reply { t.Helper(); return p.MustPost(key, "amount=1", "X-Tenant", "a") }
			digest := func(key string) string { return retrysafe.Key{Scope: "a", ID: key}.Digest().String() }
			reopen := func(args ...string) clitest.Result {
				t.Helper()
				all := append([]string{"keys", "reopen", "--reason=declined by mistake", "--by=alice", at}, args...)
				return clitest.Run(t, all...)
			}
			post("k1")
			post("k2")
			clitest.WantText(t, "a dry run", reopen(digest("k1"), "--dry-run").Stdout, "nothing was changed. Otherwise",
				"runs the whole operation again", "it happens twice")
			clitest.Want(t, "a retry after the dry run", post("k1").Text, "charge 1")
			done := reopen(digest("k1"))
			clitest.Want(t, "exit code: "+done.Stderr, done.Code, cli.ExitOK)
			clitest.WantText(t, "output", done.Stdout, "key "+digest("k1")+" is reopened: the next retry")
			if name == "sqlite" {
				clitest.Want(t, "the log has the decision", p.Line("decision")["what"], any("key_reopened"))
			}
			clitest.Want(t, "another request under the key", p.MustPost("k1", "amount=2", "X-Tenant", "a").StatusCode, 422)
			clitest.Want(t, "the retry", post("k1").Text, "charge 3")
			clitest.Want(t, "a later retry", post("k1").Text, "charge 3")
			shown := clitest.Run(t, "keys", "show", digest("k1"), at).Stdout
			clitest.WantText(t, "keys show", shown, "reopen by alice: declined by mistake", "succeeded")

			many := []string{digest("k1"), digest("k2"), strings.Repeat("0", 32), "--json"}
			dry := reopen(many...)
			clitest.WantText(t, "a dry run of many", dry.Stderr, "nothing was changed. Otherwise: 2 keys reopened", "Add --yes",
				"1 of 3 keys could not be reopened")
			clitest.Want(t, "after the dry run", post("k2").Text, "charge 2")
			some := reopen(append(many, "--yes")...)
			clitest.Want(t, "exit code", some.Code, cli.ExitFailed)
			clitest.WantText(t, "JSON", some.Stdout, `"action":"reopen"`, `"state":"released"`, `"code":"no-such-key"`)
			clitest.Want(t, "lines", strings.Count(some.Stdout, "\n"), 3)
			clitest.Want(t, "the retries", post("k1").Text+post("k2").Text, "charge 4charge 5")
			clitest.Want(t, "asked", up.Asked.Load(), 5)
		})
	}
	file, digests := keysInEachState(t)
	for state, says := range map[string]string{
		"abandoned": "is abandoned: it is not known whether it ran", "released": "is released: the next retry",
		"in-flight": "is in flight: wait",
	} {
		got := clitest.Run(t, "keys", "reopen", digests[state], "--reason=again", "--json", "--store="+file)
		clitest.Want(t, "exit code", got.Code, cli.ExitFailed)
		clitest.WantText(t, "output", got.Stderr, says, "Nothing was changed")
		clitest.WantText(t, "JSON", got.Stdout, `"error":{"code":`)
	}
	failed := clitest.Run(t, "keys", "reopen", digests["failed"], "--reason=again", "--json", "--store="+file)
	clitest.WantText(t, "JSON", failed.Stdout, `"digest":"`+digests["failed"], `"action":"reopen"`, `"state":"released"`)
	for _, flags := range []string{"", "--reason=again", "--reason=again order-17"} {
		got := clitest.Run(t, append([]string{"keys", "reopen", "--store=" + file}, strings.Fields(flags)...)...)
		clitest.Want(t, "exit code", got.Code, cli.ExitRefused)
	}
}
