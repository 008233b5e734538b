package servers_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

func TestNATSIsKilledPausedAndRestarted(t *testing.T) {
	t.Parallel()
	for _, o := range []servers.NATSOptions{{}, {SyncAlways: true}} {
		n := servers.StartNATS(t, o)
		greets := func() {
			t.Helper()
			text, err := greeting(t, n.URL(), "PING\r\n", long)
			if err != nil || !strings.HasPrefix(text, "INFO ") || !strings.Contains(text, `"jetstream":true`) {
				t.Errorf("NATS says %q, %v", text, err)
			}
		}
		greets()
		n.Pause(t)
		if text, err := greeting(t, n.URL(), "PING\r\n", brief); err == nil {
			t.Errorf("a paused server says %q", text)
		}
		n.Resume(t)
		greets()
		n.Kill(t)
		if _, err := greeting(t, n.URL(), "", brief); err == nil {
			t.Error("a killed server answers")
		}
		n.Start(t)
		greets()
		n.Restart(t)
		greets()
	}
}
