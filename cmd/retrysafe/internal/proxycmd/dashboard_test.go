//go:build unix

package proxycmd

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// A proxy serves the dashboard: its keys, its traffic, and its configuration.
func TestAProxyServesTheDashboard(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store="+filepath.Join(t.TempDir(), "keys.db"), "--dashboard=127.0.0.1:0")
	url := p.Logged("listening")["dashboard"].(string)
	for range 2 {
		clitest.Want(t, "status", p.MustPost("k", "amount=1").StatusCode, 201)
	}
	clitest.WantText(t, "the overview", page(t, url+"/"), "Requests with a key", "everything else", "50.0 %", "succeeded")
	clitest.WantText(t, "the configuration", page(t, url+"/configuration"), "upstream:", up.URL)
	clitest.WantText(t, "the list", page(t, url+"/find?state=succeeded"), "1 succeeded key")
}

// A proxy whose store is in a database with an outbox shows that, too, and the links of its file. Seen to fail with
// Outboxes and Links left out of openDashboard.
func TestADashboardWithOutboxesAndLinks(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	store := clitest.Migrated(t)
	if got := clitest.Run(t, "outbox", "migrate", "--store="+store, "--schema=shop"); got.Code != cli.ExitOK {
		t.Fatal(got.Stderr)
	}
	file := clitest.WriteFile(t, "store: '"+store+"'\ndefaults: {tags: {amount: 'query:amount'}}\n"+
		"dashboard: {listen: '127.0.0.1:0', links: {Bank: 'https://bank.example/{tag:amount}'}}\n")
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--config="+file)
	url := p.Logged("listening")["dashboard"].(string)
	clitest.WantText(t, "the outboxes", page(t, url+"/outboxes"), `aria-current="page">Outboxes`, "shop.outbox", "No aggregate is held up")
	clitest.WantText(t, "the outbox", page(t, url+"/outboxes/shop.outbox"), "Dead letters", "There are none.")
	clitest.WantText(t, "the configuration", page(t, url+"/configuration"), "https://bank.example/{tag:amount}")
	req, err := http.NewRequest(http.MethodPost, p.URL+"/payments?amount=1%2F2", nil)
	clitest.Must(t, err)
	req.Header.Set("Idempotency-Key", "k")
	req.Header.Set("Authorization", "me")
	res, err := p.Client.Do(req)
	clitest.Must(t, err)
	res.Body.Close()
	list := page(t, url+"/find?state=succeeded")
	_, rest, _ := strings.Cut(list, `href="/keys/`)
	digest, _, _ := strings.Cut(rest, `"`)
	clitest.WantText(t, "the key", page(t, url+"/keys/"+digest), `href="https://bank.example/1%2F2" rel="noreferrer"`)
}

// A link with {upstream_key} has the key that the API got, which was made with the proxy's secret. Which keys are known is
// tested in package proxy.
//
// Seen to fail with ChildSecret left out of keysOf, and with withUpstreamKey left out of Local.Show.
func TestLinksToTheUpstreamKey(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 1)
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent <- r.Header.Get("X-Key") }))
	defer up.Close()
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store=memory:", "--config="+clitest.WriteFile(t,
		"upstream_key_secret: {file: "+clitest.WriteFile(t, "a secret of some length\n")+"}\ndefaults: {upstream_key: X-Key}\n"+
			"dashboard: {listen: '127.0.0.1:0', links: {API: 'https://api.example/{upstream_key}'}}\n"))
	url := p.Logged("listening")["dashboard"].(string)
	clitest.Want(t, "status", p.MustPost("k", "amount=1").StatusCode, 200)
	_, rest, _ := strings.Cut(page(t, url+"/find?state=succeeded"), `href="/keys/`)
	digest, _, _ := strings.Cut(rest, `"`)
	clitest.WantText(t, "the key", page(t, url+"/keys/"+digest), `href="https://api.example/`+<-sent+`" rel="noreferrer"`)
}

// A dashboard that cannot be served, or that any client could use, is an error at the start.
func TestADashboardThatCannotBeServed(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	clitest.Must(t, err)
	defer taken.Close()
	for address, c := range map[string]struct {
		code int
		says string
	}{
		taken.Addr().String(): {cli.ExitFailed, "listen for --dashboard"},
		"0.0.0.0:0":           {cli.ExitRefused, "could use the dashboard"},
	} {
		got := clitest.Run(t, "proxy", "--upstream=http://127.0.0.1:1", "--store=memory:", "--listen=127.0.0.1:0", "--dashboard="+address)
		clitest.Want(t, address+": exit code", got.Code, c.code)
		clitest.WantText(t, address, got.Stderr, c.says)
	}
}

func page(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	clitest.Must(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	clitest.Must(t, err)
	clitest.Want(t, url, res.StatusCode, http.StatusOK)
	return string(text)
}
