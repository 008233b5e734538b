package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

const (
	// clusterSlots is the number of hash slots of every Redis Cluster.
	clusterSlots = 16384
	// clusterMasters is how many masters share them: the fewest that can elect one of their replicas.
	clusterMasters = 3
)

// RedisCluster is a Redis Cluster: three masters that share the hash slots, and a replica of each, a process each.
//
// A master that is killed or paused keeps its slots until Failover promotes a replica. Replicas do not replace it by
// themselves, so that a busy machine does not start a failover that no test asked for.
type RedisCluster struct {
	// Nodes are the processes, masters first. Failover exchanges roles, not places.
	Nodes []*Redis
}

// StartRedisCluster starts a cluster for one test and ends it with the test. It takes about three seconds.
func StartRedisCluster(t testing.TB) *RedisCluster {
	t.Helper()
	return startFor(t, clusterOptions.share, clusterOptions{})
}

// clusterOptions are those of a shared cluster, which has none.
type clusterOptions struct{}

func (clusterOptions) share() (*RedisCluster, error) {
	nodes, err := launchReplicated("redis-cluster", 2*clusterMasters, func(r *Redis) (RedisOptions, error) {
		bus, err := r.reserveMore()
		return RedisOptions{Settings: map[string]string{
			"cluster-enabled":      "yes",
			"cluster-config-file":  "nodes.conf",
			"cluster-port":         strconv.Itoa(bus),
			"cluster-announce-ip":  "127.0.0.1",
			"cluster-node-timeout": calmNodes,
			// Replicas replace no master by themselves, and stay with theirs.
			"cluster-replica-no-failover":     "yes",
			"cluster-allow-replica-migration": "no",
			// A node that is killed by a signal loses nothing that it has written to a file, synced or not.
			"appendfsync": "no",
		}}, err
	})
	if err != nil {
		return nil, err
	}
	c := &RedisCluster{Nodes: nodes}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.form(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Nodes tell each other what they know several times in each node timeout. While the cluster forms that is to be often;
// later they must not take a node for down that merely waits for a processor. While they elect a replica it is to be
// short, because a master votes for no other replica of a shard for twice the timeout. In milliseconds.
const (
	eagerNodes    = "500"
	electingNodes = "2000"
	calmNodes     = "60000"
)

// form makes one cluster of the nodes: each master gets its share of the slots, each replica its master.
func (c *RedisCluster) form(ctx context.Context) error {
	const masters = clusterMasters
	if err := c.configure(ctx, "cluster-node-timeout", eagerNodes); err != nil {
		return err
	}
	for i, node := range c.Nodes {
		// Epochs that differ from the start save the nodes from a conflict that they would have to resolve.
		if _, err := node.ask(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i < masters {
			first, last := clusterSlots*i/masters, clusterSlots*(i+1)/masters-1
			_, err := node.ask(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last))
			if err != nil {
				return err
			}
		}
	}
	if err := poll(ctx, "acquainted", func() (bool, error) { return c.meet(ctx) }); err != nil {
		return err
	}
	for i, node := range c.Nodes[masters:] {
		master, err := c.Nodes[i%masters].ask(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if _, err := node.ask(ctx, "CLUSTER", "REPLICATE", master); err != nil {
			return err
		}
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	return c.configure(ctx, "cluster-node-timeout", calmNodes)
}

// configure changes a setting of all running nodes until they restart.
func (c *RedisCluster) configure(ctx context.Context, name, value string) error {
	return forEach(c.running(), func(_ int, r *Redis) error {
		_, err := r.ask(ctx, "CONFIG", "SET", name, value)
		return err
	})
}

// meet introduces those to the first node that it does not know, and reports whether every node knows every other. A node
// that does not answer within a second is forgotten, and has to be introduced again.
func (c *RedisCluster) meet(ctx context.Context) (bool, error) {
	known := true
	for i, node := range c.Nodes {
		view, err := node.ask(ctx, "CLUSTER", "NODES")
		if err != nil {
			return false, err
		}
		known = known && strings.Count(view, "\n")+1 == len(c.Nodes) && !strings.Contains(view, "handshake")
		for _, other := range c.Nodes[1:] {
			if i > 0 || strings.Contains(view, other.address()) {
				continue
			}
			_, err := node.ask(ctx, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.port.number), strconv.Itoa(other.more[0].number))
			if err != nil {
				return false, err
			}
		}
	}
	return known, nil
}

// settle waits until all running nodes agree who has which slots, serve them all, and each replica follows its master.
func (c *RedisCluster) settle(ctx context.Context) error {
	var why string
	err := poll(ctx, "agreed", func() (bool, error) {
		first := ""
		for _, node := range c.running() {
			view, err := c.view(ctx, node)
			if err != nil {
				return false, err
			}
			first = cmp.Or(first, view.String())
			if why = fmt.Sprintf("%s sees\n%s", node.address(), view); view.String() != first {
				return false, nil
			}
			state, err := node.info(ctx, "replication")
			about, aboutErr := node.ask(ctx, "CLUSTER", "INFO")
			if err = errors.Join(err, aboutErr); err != nil {
				return false, err
			}
			if !view.whole || !strings.Contains(about, "cluster_state:ok") ||
				state["role"] == "slave" && state["master_link_status"] != "up" {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, why)
	}
	return nil
}

// Repair resumes and starts what a test has paused and killed, lets every replica follow its master again, and returns
// once the cluster is whole. Masters and slots stay where they are.
func (c *RedisCluster) Repair(t testing.TB) {
	t.Helper()
	ctx := patient(t)
	check(t, wake(ctx, c.Nodes))
	check(t, c.settle(ctx))
}

// Cut cuts the replication of a replica, which stays in the cluster and can be promoted. It gets nothing that its master
// writes from now on, until Repair.
func (c *RedisCluster) Cut(t testing.TB, replica *Redis) {
	t.Helper()
	ctx := patient(t)
	check(t, cut(ctx, c.Nodes, replica))
}

// CatchUp returns once the running replicas of a master have everything that it has.
func (c *RedisCluster) CatchUp(t testing.TB, master *Redis) {
	t.Helper()
	ctx := patient(t)
	check(t, catchUp(ctx, master, c.ReplicasOf(t, master)))
}

// Flush deletes all keys and all cached scripts.
func (c *RedisCluster) Flush(t testing.TB) {
	t.Helper()
	for _, node := range c.Masters(t) {
		node.Flush(t)
	}
}

// Addresses returns the host and port of each node.
func (c *RedisCluster) Addresses() []string { return addresses(c.Nodes) }

// Close kills all nodes and removes their folders. It returns an error if one had ended by itself.
func (c *RedisCluster) Close() error { return closeRedis(c.Nodes) }

func (c *RedisCluster) closeWith(t testing.TB) { closeRedisWith(t, c.Nodes...) }

// running returns the nodes that are neither killed nor paused.
func (c *RedisCluster) running() []*Redis { return runningOf(c.Nodes) }

// SharedRedisCluster is one cluster for all tests of a test binary. The zero value is ready for use; the cluster starts
// with the first Get and ends with the process. A SharedRedisCluster must not be copied.
type SharedRedisCluster struct {
	shared Shared[clusterOptions, *RedisCluster]
}

// Get repairs and empties the cluster and returns it. It fails the test, and all tests that follow, if the cluster does
// not start.
func (s *SharedRedisCluster) Get(t testing.TB) *RedisCluster {
	t.Helper()
	c := s.shared.Get(t)
	c.Repair(t)
	c.Flush(t)
	return c
}
