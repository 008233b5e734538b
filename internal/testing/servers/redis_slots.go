package servers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// clusterView is what one node knows of its cluster.
type clusterView struct {
	masters  map[string][]string // the slots of each master, as ranges, by address
	replicas map[string]string   // the master's address by the replica's
	whole    bool                // all slots are served
}

func (v clusterView) String() string {
	return fmt.Sprintf("masters %v, replicas %v", v.masters, v.replicas)
}

// view asks a node for its view. It leaves out nodes that have failed or are not running.
func (c *RedisCluster) view(ctx context.Context, node *Redis) (clusterView, error) {
	v := clusterView{masters: map[string][]string{}, replicas: map[string]string{}}
	text, err := node.ask(ctx, "CLUSTER", "NODES")
	if err != nil {
		return v, err
	}
	byID, masterOf, served := map[string]string{}, map[string]string{}, 0
	for line := range strings.Lines(text) {
		// id address@bus,hostname flags master ping pong epoch link slots...
		words := strings.Fields(line)
		if len(words) < 8 {
			return v, fmt.Errorf("servers: CLUSTER NODES printed %q", line)
		}
		address, _, _ := strings.Cut(words[1], "@")
		byID[words[0]] = address
		if !slices.ContainsFunc(c.running(), func(r *Redis) bool { return r.address() == address }) {
			continue
		}
		if words[3] != "-" {
			masterOf[address] = words[3]
			continue
		}
		ranges := slices.DeleteFunc(words[8:], func(s string) bool { return strings.HasPrefix(s, "[") }) // being moved
		v.masters[address] = ranges
		served += countSlots(ranges)
	}
	for replica, id := range masterOf {
		v.replicas[replica] = byID[id]
	}
	v.whole = served == clusterSlots
	return v, nil
}

func countSlots(ranges []string) (n int) {
	for _, r := range ranges {
		first, last := slotRange(r)
		n += last - first + 1
	}
	return n
}

// slotRange parses "7" and "7-9".
func slotRange(text string) (first, last int) {
	a, b, _ := strings.Cut(text, "-")
	first, _ = strconv.Atoi(a) // the server printed it
	last, _ = strconv.Atoi(cmp.Or(b, a))
	return first, last
}

// Masters returns the running masters, in the order of Nodes.
func (c *RedisCluster) Masters(t testing.TB) []*Redis {
	t.Helper()
	v := c.look(t)
	return slices.DeleteFunc(c.running(), func(r *Redis) bool { return len(v.masters[r.address()]) == 0 })
}

// Owner returns the running master that has the slot. It fails the test if there is none.
func (c *RedisCluster) Owner(t testing.TB, slot int) *Redis {
	t.Helper()
	v := c.look(t)
	for _, node := range c.running() {
		for _, r := range v.masters[node.address()] {
			if first, last := slotRange(r); first <= slot && slot <= last {
				return node
			}
		}
	}
	t.Fatalf("servers: no running master has slot %d: %s", slot, v)
	return nil
}

// ReplicasOf returns the running replicas of a master, which may be down.
func (c *RedisCluster) ReplicasOf(t testing.TB, master *Redis) []*Redis {
	t.Helper()
	v := c.look(t)
	return slices.DeleteFunc(c.running(), func(r *Redis) bool { return v.replicas[r.address()] != master.address() })
}

// look returns the view of the first running node.
func (c *RedisCluster) look(t testing.TB) clusterView {
	t.Helper()
	ctx := patient(t)
	nodes := c.running()
	if len(nodes) == 0 {
		t.Fatal(errDown)
	}
	v, err := c.view(ctx, nodes[0])
	check(t, err)
	return v
}

// Slot returns the slot of a key.
func (c *RedisCluster) Slot(t testing.TB, key string) int {
	t.Helper()
	slot, err := strconv.Atoi(c.running()[0].Command(t, "CLUSTER", "KEYSLOT", key))
	check(t, err)
	return slot
}

// Failover promotes a replica of a master that is down or is to be replaced, by a vote of the other masters, and returns
// once all running nodes agree. What the replica had not received from the master is lost.
func (c *RedisCluster) Failover(t testing.TB, replica *Redis) {
	t.Helper()
	ctx := patient(t)
	check(t, c.configure(ctx, "cluster-node-timeout", electingNodes))
	var asked time.Time
	check(t, poll(ctx, "promoted", func() (bool, error) {
		v, err := c.view(ctx, replica)
		isMaster := len(v.masters[replica.address()]) > 0
		if err == nil && !isMaster && time.Since(asked) > 6*time.Second { // after five the replica has given up
			asked = time.Now()
			_, _ = replica.ask(ctx, "CLUSTER", "FAILOVER", "FORCE") // it refuses if it was promoted meanwhile
		}
		return isMaster, err
	}))
	check(t, c.settle(ctx))
	check(t, c.configure(ctx, "cluster-node-timeout", calmNodes))
}

// SlotMove is a slot on its way from one master to another. Clients get answers from the old master about keys that it
// still has, and are redirected to the new one for others (ASK).
type SlotMove struct {
	cluster  *RedisCluster
	slot     string
	from, to *Redis
	id       string // of to
}

// BeginMove begins to move a slot. No key has moved yet.
func (c *RedisCluster) BeginMove(t testing.TB, slot int, to *Redis) *SlotMove {
	t.Helper()
	m := &SlotMove{cluster: c, slot: strconv.Itoa(slot), from: c.Owner(t, slot), to: to}
	m.id = to.Command(t, "CLUSTER", "MYID")
	to.Command(t, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.from.Command(t, "CLUSTER", "MYID"))
	m.from.Command(t, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.id)
	return m
}

// MoveKeys moves up to n keys of the slot, and returns how many it has moved.
func (m *SlotMove) MoveKeys(t testing.TB, n int) int {
	t.Helper()
	keys := strings.Fields(m.from.Command(t, "CLUSTER", "GETKEYSINSLOT", m.slot, strconv.Itoa(n)))
	if len(keys) == 0 {
		return 0
	}
	m.Move(t, keys...)
	return len(keys)
}

// Move moves these keys of the slot.
func (m *SlotMove) Move(t testing.TB, keys ...string) {
	t.Helper()
	migrate := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(m.to.port.number), "", "0", "60000", "KEYS"}
	m.from.Command(t, append(migrate, keys...)...)
}

// Finish gives the slot to the new master. Keys that have not been moved would be lost, and so it fails the test if there
// are any.
func (m *SlotMove) Finish(t testing.TB) {
	t.Helper()
	// The new master first: if it did not know yet, both would send clients to each other.
	m.to.Command(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.id)
	m.from.Command(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.id)
	for _, node := range m.cluster.Masters(t) {
		if node != m.to && node != m.from {
			node.Command(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.id)
		}
	}
}
