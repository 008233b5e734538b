//go:build unix

package proxycmd

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

// A proxy saves within a second how often keys were seen again, also if its metrics are on, so that a kill loses what
// was seen in the last second and nothing else. Seen to fail with saveSightingsSoon doing nothing.
func TestSightingsOutliveAKill(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, url string) {
		up := clitest.NewAPI(t)
		start := func() *clitest.Running {
			return clitest.StartProxy(t, "--upstream="+up.URL, "--store="+url, "--admin=127.0.0.1:0", "--metrics")
		}
		replays := func() int64 {
			found := clitest.Run(t, "keys", "find", "order-17", "--store="+url, "--json")
			var r keys.Record
			clitest.Must(t, json.Unmarshal([]byte(strings.TrimSpace(found.Stdout)), &r))
			for _, s := range r.Sightings {
				if s.Kind == "replayed" {
					return s.Count
				}
			}
			return 0
		}
		p := start()
		first := p.MustPost("order-17", "amount=1")
		p.MustPost("order-17", "amount=1")
		p.MustPost("order-17", "amount=1")
		for late := time.Now().Add(time.Minute); replays() != 2; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("the record has %d replays, want 2", replays())
			}
		}
		p.MustPost("order-17", "amount=1")
		p.Signal(syscall.SIGKILL)
		p.Exit()
		if n := replays(); n < 2 || n > 3 {
			t.Errorf("after the kill the record has %d replays, want 2 or 3", n)
		}
		again := start().MustPost("order-17", "amount=1")
		clitest.Want(t, "answer after the kill", again.Text, first.Text)
	}
	t.Run("file", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "keys.db")) })
	clitest.OnEachServer(t, func(t *testing.T, url string) {
		if strings.HasPrefix(url, "postgres:") || strings.HasPrefix(url, "mysql:") {
			test(t, url)
		}
	})
}
