package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// clusterSlots is the number of hash slots of every Redis Cluster.
const clusterSlots = 16384

// RedisCluster is a Redis Cluster: masters that share the hash slots, and replicas of them, a process each.
//
// A master that is killed or paused keeps its slots until Failover promotes a replica. Replicas do not replace it by
// themselves, so that a busy machine does not start a failover that no test asked for.
type RedisCluster struct {
	// Nodes are the processes, masters first. Failover exchanges roles, not places.
	Nodes []*Redis
}

// RedisClusterOptions are the options of a RedisCluster. RedisClusterOptions{} works.
type RedisClusterOptions struct {
	// Masters is the number of masters that share the slots. Default 3, the fewest that can elect one of them.
	Masters int
	// Replicas is the number of replicas of each master. Default 1.
	Replicas int
	// Settings are added to each node's redis.conf: see RedisOptions.
	Settings map[string]string
	// Valkey starts Valkey instead of Redis.
	Valkey bool
}

// StartRedisCluster starts a cluster for one test and ends it with the test. It takes about three seconds.
func StartRedisCluster(t testing.TB, o RedisClusterOptions) *RedisCluster {
	t.Helper()
	c, err := LaunchRedisCluster(o)
	check(t, err)
	closeRedisWith(t, c.Nodes...)
	return c
}

// LaunchRedisCluster starts a cluster for programs without a testing.TB. It ends with Close, or with this process.
func LaunchRedisCluster(o RedisClusterOptions) (*RedisCluster, error) {
	if o.Masters == 0 {
		o.Masters = 3
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	nodes, err := launchReplicated("redis-cluster", o.Masters*(1+o.Replicas), func(r *Redis) (RedisOptions, error) {
		bus, err := r.reserveMore()
		return RedisOptions{Valkey: o.Valkey, Settings: with(o.Settings, map[string]string{
			"cluster-enabled":      "yes",
			"cluster-config-file":  "nodes.conf",
			"cluster-port":         strconv.Itoa(bus),
			"cluster-announce-ip":  "127.0.0.1",
			"cluster-node-timeout": calmNodes,
			// Replicas replace no master by themselves, and stay with theirs.
			"cluster-replica-no-failover":     "yes",
			"cluster-allow-replica-migration": "no",
		})}, err
	})
	if err != nil {
		return nil, err
	}
	c := &RedisCluster{Nodes: nodes}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.form(ctx, o.Masters); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Nodes tell each other what they know several times in each node timeout. While the cluster forms that is to be often;
// later they must not take a node for down that merely waits for a processor. In milliseconds.
const (
	eagerNodes = "500"
	calmNodes  = "60000"
)

// form makes one cluster of the nodes: each master gets its share of the slots, each replica its master.
func (c *RedisCluster) form(ctx context.Context, masters int) error {
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
	for _, node := range c.Nodes[1:] {
		_, err := c.Nodes[0].ask(ctx, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(node.port.number),
			strconv.Itoa(node.more[0].number))
		if err != nil {
			return err
		}
	}
	if err := poll(ctx, "acquainted", c.acquainted(ctx)); err != nil {
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

// configure changes a setting of all nodes until they restart.
func (c *RedisCluster) configure(ctx context.Context, name, value string) error {
	return forEach(c.Nodes, func(_ int, r *Redis) error {
		_, err := r.ask(ctx, "CONFIG", "SET", name, value)
		return err
	})
}

// acquainted reports whether every node knows every other.
func (c *RedisCluster) acquainted(ctx context.Context) func() (bool, error) {
	return func() (bool, error) {
		for _, node := range c.Nodes {
			view, err := node.ask(ctx, "CLUSTER", "NODES")
			if err != nil || strings.Count(view, "\n")+1 < len(c.Nodes) || strings.Contains(view, "handshake") {
				return false, err
			}
		}
		return true, nil
	}
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	check(t, wake(ctx, c.Nodes))
	check(t, c.settle(ctx))
}

// Cut cuts the replication of a replica, which stays in the cluster and can be promoted. It gets nothing that its master
// writes from now on, until Repair.
func (c *RedisCluster) Cut(t testing.TB, replica *Redis) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	check(t, cut(ctx, c.Nodes, replica))
}

// CatchUp returns once the running replicas of a master have everything that it has.
func (c *RedisCluster) CatchUp(t testing.TB, master *Redis) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
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

// running returns the nodes that are neither killed nor paused.
func (c *RedisCluster) running() []*Redis { return runningOf(c.Nodes) }

// SharedRedisCluster is one cluster for all tests of a test binary. The zero value is ready for use; the cluster starts
// with the first Get and ends with the process. A SharedRedisCluster must not be copied.
type SharedRedisCluster struct {
	Options RedisClusterOptions

	once    sync.Once
	cluster *RedisCluster
	err     error
}

// Get repairs and empties the cluster and returns it. It fails the test, and all tests that follow, if the cluster does
// not start.
func (s *SharedRedisCluster) Get(t testing.TB) *RedisCluster {
	t.Helper()
	s.once.Do(func() { s.cluster, s.err = LaunchRedisCluster(s.Options) })
	check(t, s.err)
	s.cluster.Repair(t)
	s.cluster.Flush(t)
	return s.cluster
}
