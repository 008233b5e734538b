package servers_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Seen to fail with offsetsKnown taken out of Failover: the Sentinels chose the replica that was cut off.
func TestRedisSentinelPromotesTheReplicaThatHasMost(t *testing.T) {
	t.Parallel()
	s := servers.StartRedisSentinel(t, servers.RedisSentinelOptions{})
	for _, cut := range []int{0, 1} {
		master, replicas := s.Master(t), s.Replicas(t)
		want(t, master.Command(t, "SET", "key", "first"), "OK")
		s.CatchUp(t)
		s.Cut(t, replicas[cut])
		want(t, master.Command(t, "SET", "key", "second"), "OK")
		want(t, master.Command(t, "WAIT", "1", "60000"), "1")
		want(t, replicas[cut].Command(t, "GET", "key"), "first")
		master.Kill(t)
		if s.Failover(t) != replicas[1-cut] {
			t.Fatal("the other replica was promoted")
		}
		want(t, replicas[1-cut].Command(t, "GET", "key"), "second")
		s.Repair(t)
		want(t, master.Command(t, "GET", "key"), "second")
		want(t, replicas[cut].Command(t, "GET", "key"), "second")
	}
}
