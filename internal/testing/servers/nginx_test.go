package servers_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

func TestNginxIsConfiguredKilledAndRestarted(t *testing.T) {
	t.Parallel()
	n := servers.StartNginx(t, servers.NginxOptions{Server: "location /hello { return 200 'hello'; }"})
	url := "http://" + n.Address()
	hello := "GET /hello HTTP/1.0\r\n\r\n"
	first, err := greeting(t, url, hello, brief)
	if err != nil || first == "" {
		t.Errorf("the server answers %q, %v", first, err)
	}
	n.Kill(t)
	if _, err := greeting(t, url, hello, brief); err == nil {
		t.Error("a killed server answers")
	}
	n.Start(t)
	again, err := greeting(t, url, hello, brief)
	want(t, again, first)
	if err != nil {
		t.Error(err)
	}
}
