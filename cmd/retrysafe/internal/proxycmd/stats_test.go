//go:build unix

package proxycmd

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// Real traffic of a real proxy: the command shows the hot key and the noisy caller first, what became of their
// requests, and what the store holds, which the proxy has open. No key is shown. A part that cannot be read leaves the
// other one.
//
// Seen to fail with slices.SortStableFunc taken out of added, with Key.ID for the Scope of an Event, with Observe of
// the Meter taken out of open, and with measureStore called only if the proxy could be read.
func TestStatsOfARunningProxy(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	file := filepath.Join(t.TempDir(), "keys.db")
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store="+file, "--admin=127.0.0.1:0", "--scope=header:X-Tenant")
	for i := range 8 {
		p.MustPost(fmt.Sprint("secret-cold-", i/2), "amount=1", "X-Tenant", "quiet")
	}
	for range 6 {
		p.MustPost("secret-hot", "amount=1", "X-Tenant", "acme")
		p.MustPost("secret-hot", "amount=2", "X-Tenant", "acme")
	}
	got := clitest.Run(t, "stats", "--admin="+p.Admin, "--store="+file, "--json")
	clitest.Want(t, "exit code: "+got.Stderr, got.Code, cli.ExitOK)
	clitest.Want(t, "a key is shown in JSON", strings.Contains(got.Stdout, "secret"), false)
	var found struct {
		Proxy struct {
			Total struct {
				Requests  int     `json:"requests"`
				DedupRate float64 `json:"dedup_rate"`
			} `json:"total"`
			Keys    []map[string]any `json:"keys"`
			Callers []map[string]any `json:"callers"`
		} `json:"proxy"`
		Store struct {
			Records map[string]int `json:"records"`
			Bytes   int64          `json:"bytes"`
		} `json:"store"`
	}
	clitest.Must(t, json.Unmarshal([]byte(got.Stdout), &found))
	hot := retrysafe.Key{Scope: "acme", ID: "secret-hot"}.Digest().String()
	counts := "executed 1, replayed 5, refused 6, missed 0"
	for name, of := range map[string][]map[string]any{
		"key " + hot: found.Proxy.Keys, "scope acme": found.Proxy.Callers,
	} {
		field, value, _ := strings.Cut(name, " ")
		if len(of) < 2 || of[0][field] != value {
			t.Fatalf("the first of %v is not %s", of, name)
		}
		clitest.Want(t, name, fmt.Sprintf("executed %v, replayed %v, refused %v, missed %v", of[0]["executed"],
			of[0]["replayed"], of[0]["refused"], of[0]["missed"]), counts)
	}
	clitest.Want(t, "requests", found.Proxy.Total.Requests, 20)
	clitest.Want(t, "dedup rate", found.Proxy.Total.DedupRate, 9./20)
	clitest.Want(t, "records that have succeeded", found.Store.Records["succeeded"], 5)
	clitest.Want(t, "the store has a size", found.Store.Bytes > 0, true)

	text := clitest.Run(t, "stats", "--admin="+p.Admin, "--store="+file, "--limit=1")
	clitest.Want(t, "exit code: "+text.Stderr, text.Code, cli.ExitOK)
	clitest.WantText(t, "the text", text.Stdout, "everything else", "45.0 %", hot+"  12 ", "acme   12 ", "5 succeeded",
		"unfinished")
	clitest.Want(t, "quiet callers with --limit=1", strings.Contains(text.Stdout, "quiet"), false)
	away := clitest.Run(t, "stats", "--admin=http://127.0.0.1:1", "--store="+file)
	clitest.Want(t, "exit code without the proxy", away.Code, cli.ExitFailed)
	clitest.WantText(t, "without the proxy", away.Stdout+away.Stderr, "5 succeeded", "read the proxy")
	other := clitest.Run(t, "stats", "--admin="+p.URL)
	clitest.Want(t, "exit code at the wrong address", other.Code, cli.ExitFailed)
	clitest.WantText(t, "at the wrong address", other.Stderr, "not the admin address")
	clitest.Want(t, "a key is shown", strings.Contains(text.Stdout+away.Stdout+p.Log(), "secret"), false)
}
