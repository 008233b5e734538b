//go:build unix

package proxycmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// A proxy accepts requests while its upstream is down, which costs no tries, and delivers them when the upstream is there:
// after it was killed, and after a reload. If the file has encryption, the store's has nothing of them.
//
// Seen to fail without noteNotSent in the proxy (dead letters), with Keys left out of the options of the inbox (the body is
// in the file), and with deliver not called by a reload (the second route's request waited).
func TestAnInboxOutlivesEverything(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	dir := t.TempDir()
	keyset := filepath.Join(dir, "keyset.json")
	if got := clitest.Run(t, "keyset", "new", keyset); got.Code != 0 {
		t.Fatal(got.Stderr)
	}
	store := filepath.Join(dir, "keys.db")
	// A proxy that is killed while it tries to connect leaves a key whose outcome is unknown: here the request may run again.
	const inbox = "{accept: inbox, abandoned: rerun, upstream_key: none, lease: 3s, key: {natural: {fields: [/id]}}, deliver: {attempts: 2, first_delay: 10ms, max_delay: 20ms}}\n"
	file := clitest.WriteFile(t, fmt.Sprintf("upstream: http://%s\nstore: %s\nscope: none\nencryption: {file: %s}\n"+
		"secret: {file: %s}\nroutes:\n  POST /hooks: %s", address, store, keyset, clitest.WriteFile(t, "a secret of some length"), inbox))
	p := clitest.StartProxy(t, "--config="+file)
	send := func(path string, id int) {
		t.Helper()
		res, err := http.Post(p.URL+path, "application/json", strings.NewReader(fmt.Sprintf(`{"id":%d,"text":"in the clear"}`, id)))
		clitest.Must(t, err)
		res.Body.Close()
		clitest.Want(t, "status", res.StatusCode, http.StatusAccepted)
	}
	for id := range 3 {
		send("/hooks", id)
		send("/hooks", id)
	}
	for range 8 {
		p.Line("forwarded") // in vain
	}
	for _, path := range []string{store, store + "-wal"} {
		if content, err := os.ReadFile(path); err == nil && bytes.Contains(content, []byte("in the clear")) {
			t.Errorf("%s has the body of a request", path)
		}
	}
	p.Signal(syscall.SIGKILL)
	p.Exit()

	p = clitest.StartProxy(t, "--config="+file)
	p.Line("forwarded")
	text, err := os.ReadFile(file)
	clitest.Must(t, err)
	clitest.Must(t, os.WriteFile(file, append(text, "  POST /others: "+inbox...), 0o600))
	p.Signal(syscall.SIGHUP)
	p.Line("the configuration was reloaded")
	send("/others", 3)
	var mu sync.Mutex
	runs := map[string]int{}
	all := make(chan struct{})
	listener, err := net.Listen("tcp", address)
	clitest.Must(t, err)
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var said struct{ ID int }
		_ = json.NewDecoder(r.Body).Decode(&said)
		mu.Lock()
		defer mu.Unlock()
		if runs[fmt.Sprint(r.URL.Path, " ", said.ID)]++; len(runs) == 4 && runs["/others 3"] == 1 {
			close(all)
		}
	}))
	up.Listener = listener
	up.Start()
	t.Cleanup(up.Close)
	clitest.WaitFor(t, all, "all deliveries")
	waitForDelivered(t, store, 4)
	mu.Lock()
	defer mu.Unlock()
	for what, n := range runs {
		clitest.Want(t, what, n, 1)
	}
}
