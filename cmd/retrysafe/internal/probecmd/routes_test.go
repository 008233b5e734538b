//go:build unix

package probecmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/probe"
)

// routesAPI creates things at two paths. /kept knows the parameter key of the query, /lost knows no keys.
func routesAPI(t *testing.T) string {
	var mu sync.Mutex
	made, kept := 0, map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := r.URL.Query().Get("key")
		id, again := kept[key]
		if key == "" || r.URL.Path == "/lost" || !again {
			made++
			id = made
		}
		if r.URL.Path == "/kept" {
			kept[key] = id
		}
		fmt.Fprintf(w, `{"id":"%d"}`, id)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const twoRoutes = `
key_query: key
profile: none
identity: {pointer: /id}
limits: {requests: 40}
routes:
  - name: kept
    request: {path: /kept, body: '{"amount": {{amount}}}'}
  - name: lost
    setup:
      - {name: first, path: /kept, save: {first: /id}}
    request: {path: /lost, body: '{"amount": {{amount}}, "first": "{{first}}"}'}
`

// Each route has verdicts of its own, and the exit status is about all of them. Seen to fail with Join taken out of
// runCmd.play, and with KeepRoutes taken out of keepRoutes.
func TestProbeOfRoutes(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "recipe.yaml")
	if err := os.WriteFile(name, []byte("target: "+routesAPI(t)+twoRoutes), 0o600); err != nil {
		t.Fatal(err)
	}
	got := probeWith(t, "--only=B02,B04", "--recipe", name, "--json")
	clitest.Want(t, "exit code", got.Code, cli.ExitFailed)
	clitest.WantText(t, "what it says", got.Stderr, "POST /kept, POST /lost, at most 40 requests", "Route kept", "Route lost")
	var r probe.Report
	if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil {
		t.Fatalf("%v\n%s", err, got.Stdout)
	}
	verdicts := map[string]probe.Verdict{}
	for _, o := range r.Outcomes {
		verdicts[o.Route+" "+o.ID] = o.Verdict
	}
	clitest.Want(t, "verdicts", fmt.Sprint(verdicts), "map[kept B02:PASS kept B04:PASS lost B02:FAIL lost B04:PASS]")
	one := probeWith(t, "--only=B02", "--recipe", name, "--route=kept", "--observed", filepath.Join(t.TempDir(), "o.json"))
	clitest.Want(t, "exit code of one route", one.Code, cli.ExitOK)
	short := probeWith(t, "--only=B", "--recipe", name, "--json")
	if err := json.Unmarshal([]byte(short.Stdout), &r); err != nil || r.Requests > 40 || r.Routes[0].Requests == r.Requests {
		t.Errorf("%d requests, limit 40: %v", r.Requests, err)
	}
}

func TestProbeRefusesRoutes(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "recipe.yaml")
	if err := os.WriteFile(name, []byte("target: http://127.0.0.1:1"+twoRoutes), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"--route=kpt"}, []string{"--route", `"kpt"`, "kept, lost"}},
		{[]string{"--observed=o.json"}, []string{"--observed", "--route"}},
	} {
		got := probeWith(t, append(c.args, "--recipe", name)...)
		clitest.Want(t, "exit code", got.Code, cli.ExitRefused)
		clitest.WantText(t, "error", got.Stderr, c.says...)
	}
}
