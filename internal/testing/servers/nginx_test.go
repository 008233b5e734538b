package servers_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

func TestNginxIsConfiguredKilledAndRestarted(t *testing.T) {
	t.Parallel()
	n := servers.StartNginx(t, servers.NginxOptions{Server: "location /hello { return 200 'hello'; }"})
	url := "http://" + n.Address()
	hello := "GET /hello HTTP/1.0\r\n\r\n"
	answers := func() {
		t.Helper()
		if got, err := greeting(t, url, hello, long); err != nil || !strings.HasSuffix(got, "\r\n\r\nhello") {
			t.Errorf("the server answers %q, %v", got, err)
		}
	}
	answers()
	n.Kill(t)
	if _, err := greeting(t, url, hello, brief); err == nil {
		t.Error("a killed server answers")
	}
	n.Start(t)
	answers()
}
