package servers_test

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Seen to fail with Cut doing nothing, and with Reconnect doing nothing.
func TestNATSClusterIsCutAndMended(t *testing.T) {
	t.Parallel()
	c := servers.StartNATSCluster(t, servers.NATSOptions{})
	a, b, other := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	greets := func(from, to *servers.NATSNode) bool {
		conn, err := from.Dial("tcp", strings.TrimPrefix(to.URL(), "nats://"))
		if err != nil {
			return false
		}
		defer conn.Close()
		if err := conn.SetReadDeadline(time.Now().Add(long)); err != nil {
			t.Fatal(err)
		}
		text, _ := bufio.NewReader(conn).ReadString('\n')
		return strings.HasPrefix(text, "INFO ")
	}
	reaches := func(from, to *servers.NATSNode, want bool) {
		t.Helper()
		end := time.Now().Add(long)
		for greets(from, to) != want {
			if time.Now().After(end) {
				t.Fatalf("one server reaches the other: %v, want %v", !want, want)
			}
		}
	}
	reaches(a, b, true)
	a.Cut(t)
	reaches(a, b, false)
	reaches(a, a, true)
	reaches(b, other, true)
	a.Reconnect(t)
	reaches(b, a, true)
	b.Kill(t)
	reaches(a, b, false)
	b.Start(t) // it returns once the server is a member again
	reaches(a, b, true)
}
