package servers_test

import (
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// anotherMaster returns a master that is not this one.
func anotherMaster(t testing.TB, c *servers.RedisCluster, master *servers.Redis) *servers.Redis {
	t.Helper()
	for _, r := range c.Masters(t) {
		if r != master {
			return r
		}
	}
	t.Fatal("there is no other master")
	return nil
}

// Seen to fail with the shares of the slots one short, which left slots that nobody served, and with the SETSLOT NODE of
// Finish taken out, which left the slot where it was.
func TestRedisClusterMovesSlots(t *testing.T) {
	t.Parallel()
	c := servers.StartRedisCluster(t)
	if masters, nodes := len(c.Masters(t)), len(c.Addresses()); masters != 3 || nodes != 6 {
		t.Fatalf("%d masters, %d nodes: want 3 and 6", masters, nodes)
	}
	slot := c.Slot(t, "{tag}")
	from := c.Owner(t, slot)
	to := anotherMaster(t, c, from)
	for i := range 5 {
		want(t, from.Command(t, "SET", fmt.Sprint("{tag}", i), "kept"), "OK")
	}
	m := c.BeginMove(t, slot, to)
	if n := m.MoveKeys(t, 3); n != 3 {
		t.Errorf("%d keys were moved, want 3", n)
	}
	want(t, from.Command(t, "CLUSTER", "COUNTKEYSINSLOT", fmt.Sprint(slot)), "2")
	m.MoveKeys(t, 100)
	m.Finish(t)
	if c.Owner(t, slot) != to {
		t.Error("the slot has not moved")
	}
	for i := range 5 {
		want(t, to.Command(t, "GET", fmt.Sprint("{tag}", i)), "kept")
	}
}

// Seen to fail with Cut doing nothing, which left the replica with the second value, and with a Cut that only refuses
// new connections.
func TestRedisClusterReplacesAMaster(t *testing.T) {
	t.Parallel()
	var shared servers.SharedRedisCluster
	c := shared.Get(t)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	slot := c.Slot(t, "key")
	master := c.Owner(t, slot)
	replica := c.ReplicasOf(t, master)[0]
	want(t, master.Command(t, "SET", "key", "first"), "OK")
	c.CatchUp(t, master)
	c.Cut(t, replica)
	want(t, master.Command(t, "SET", "key", "second"), "OK")
	master.Kill(t)
	c.Failover(t, replica)
	if c.Owner(t, slot) != replica {
		t.Fatal("the replica was not promoted")
	}
	want(t, replica.Command(t, "GET", "key"), "first")
	c.Repair(t)
	if again := c.ReplicasOf(t, replica); len(again) != 1 || again[0] != master {
		t.Errorf("the new master has %d replicas: want the old master", len(again))
	}
	if shared.Get(t) != c {
		t.Error("the second Get starts another cluster")
	}
	want(t, replica.Command(t, "DBSIZE"), "0")
}
