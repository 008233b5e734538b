package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// RedisSentinel is a Redis server with replicas, watched by three Sentinels that promote a replica when the master is
// down.
type RedisSentinel struct {
	// Nodes are the servers, the first master first. Failover exchanges roles, not places.
	Nodes []*Redis
	// Sentinels are the processes that watch them.
	Sentinels []*Redis
}

// RedisSentinelOptions are the options of a RedisSentinel. RedisSentinelOptions{} works.
type RedisSentinelOptions struct {
	// Replicas is the number of replicas. Default 2.
	Replicas int
	// Settings are added to each server's redis.conf: see RedisOptions.
	Settings map[string]string
	// Valkey starts Valkey instead of Redis; the Sentinels are those of Redis.
	Valkey bool
}

const (
	// sentinels is their number: with one of them lost, the others are still a majority.
	sentinels = 3
	// downAfter is how long a server must be silent before the Sentinels take it for down, and promote a replica by
	// themselves: long, so that a busy machine does not start a failover that no test asked for.
	downAfter = time.Minute
)

// StartRedisSentinel starts servers and Sentinels for one test and ends them with the test. It takes about three seconds.
func StartRedisSentinel(t testing.TB, o RedisSentinelOptions) *RedisSentinel {
	t.Helper()
	return startFor(t, launchRedisSentinel, o)
}

func launchRedisSentinel(o RedisSentinelOptions) (*RedisSentinel, error) {
	nodes, err := launchReplicated("redis", 1+cmp.Or(o.Replicas, 2), func(*Redis) (RedisOptions, error) {
		return RedisOptions{Settings: o.Settings, Valkey: o.Valkey}, nil
	})
	if err != nil {
		return nil, err
	}
	s := &RedisSentinel{Nodes: nodes}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.form(ctx); err != nil {
		return nil, errors.Join(err, closeRedis(s.Sentinels), closeRedis(s.Nodes))
	}
	return s, nil
}

// form makes the first server the master of the others, and starts the Sentinels.
func (s *RedisSentinel) form(ctx context.Context) error {
	master := s.Nodes[0]
	for _, r := range s.Nodes[1:] {
		if _, err := r.insist(ctx, "REPLICAOF", "127.0.0.1", strconv.Itoa(master.port.number)); err != nil {
			return err
		}
	}
	if err := catchUp(ctx, master, s.Nodes[1:]); err != nil {
		return err
	}
	for range sentinels {
		r, err := newSentinel(master)
		if err != nil {
			return err
		}
		s.Sentinels = append(s.Sentinels, r)
	}
	if err := forEach(s.Sentinels, func(_ int, r *Redis) error { return r.start() }); err != nil {
		return err
	}
	// They find replicas and each other by asking now and then, and notice what has changed in the same way. Without
	// tilt-trigger they do nothing for half a minute after a pause of two seconds, which a busy machine may cause.
	for _, r := range s.Sentinels {
		if _, err := r.insist(ctx, "SENTINEL", "DEBUG", "INFO-PERIOD", "500", "PUBLISH-PERIOD", "200", "ASK-PERIOD", "200",
			"TILT-TRIGGER", "60000"); err != nil {
			return err
		}
	}
	return s.settle(ctx)
}

// newSentinel returns a Sentinel that is not started.
func newSentinel(master *Redis) (*Redis, error) {
	program, err := findProgram(redisSentinel)
	if err != nil {
		return nil, err
	}
	r, err := newRedis("redis-sentinel")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(r.folder.path, "sentinel.conf")
	r.command = []string{program, path}
	r.stop, r.ready = syscall.SIGTERM, r.pong
	return r, r.folder.owner.write(path, fmt.Sprintf(`bind 127.0.0.1
port %d
dir %s
sentinel monitor %s 127.0.0.1 %d %d
sentinel down-after-milliseconds %[3]s %[6]d
sentinel failover-timeout %[3]s %[7]s
`, r.port.number, r.folder.path, sentinelMaster, master.port.number, sentinels/2+1, downAfter.Milliseconds(),
		failoverTimeout))
}

// sentinelMaster is the name by which the Sentinels know the master and its replicas.
const sentinelMaster = "retrysafe"

// MasterSet returns the name by which the Sentinels know the master and its replicas.
func (s *RedisSentinel) MasterSet() string { return sentinelMaster }

// SentinelAddresses returns the host and port of each Sentinel.
func (s *RedisSentinel) SentinelAddresses() []string { return addresses(s.Sentinels) }

// Addresses returns the host and port of each server.
func (s *RedisSentinel) Addresses() []string { return addresses(s.Nodes) }

func (s *RedisSentinel) closeWith(t testing.TB) {
	closeRedisWith(t, s.Sentinels...)
	closeRedisWith(t, s.Nodes...)
}

// Master returns the server that the first Sentinel names as the master. It may be down.
func (s *RedisSentinel) Master(t testing.TB) *Redis {
	t.Helper()
	ctx := patient(t)
	r, err := s.master(ctx, s.Sentinels[0])
	check(t, err)
	return r
}

// Replicas returns the servers that are not the master, in the order of Nodes. Some may be down.
func (s *RedisSentinel) Replicas(t testing.TB) []*Redis {
	t.Helper()
	return without(s.Nodes, s.Master(t))
}

func without(nodes []*Redis, r *Redis) []*Redis {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *Redis) bool { return n == r })
}

// master asks one Sentinel.
func (s *RedisSentinel) master(ctx context.Context, sentinel *Redis) (*Redis, error) {
	text, err := sentinel.insist(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinelMaster)
	if err != nil {
		return nil, err
	}
	address := strings.ReplaceAll(text, "\n", ":")
	i := slices.Index(addresses(s.Nodes), address)
	if i < 0 {
		return nil, fmt.Errorf("servers: Sentinel names the master %q", address)
	}
	return s.Nodes[i], nil
}

// settle waits until all Sentinels name the same master and know each other, and the running replicas follow it.
func (s *RedisSentinel) settle(ctx context.Context) error {
	var master *Redis
	err := poll(ctx, "agreed", func() (bool, error) {
		for i, sentinel := range runningOf(s.Sentinels) {
			named, err := s.master(ctx, sentinel)
			if err != nil || i > 0 && named != master {
				return false, err
			}
			master = named
			text, err := sentinel.insist(ctx, "SENTINEL", "MASTER", sentinelMaster)
			if err != nil {
				return false, err
			}
			if f := pairs(text); f["num-other-sentinels"] != "2" || f["num-slaves"] != strconv.Itoa(len(s.Nodes)-1) ||
				f["flags"] != "master" {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	if err := s.follow(ctx, master); err != nil {
		return err
	}
	return catchUp(ctx, master, without(runningOf(s.Nodes), master))
}

// follow tells all running servers to become replicas of the master. The Sentinels do it too, but leave a server that
// follows another one as it is for as long as a failover may take.
func (s *RedisSentinel) follow(ctx context.Context, master *Redis) error {
	for _, r := range without(runningOf(s.Nodes), master) {
		state, err := r.info(ctx, "replication")
		if err == nil && !state.follows(master) {
			_, err = r.insist(ctx, "REPLICAOF", "127.0.0.1", strconv.Itoa(master.port.number))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pairs parses names and values, a line each.
func pairs(text string) map[string]string {
	lines, fields := strings.Split(text, "\n"), map[string]string{}
	for i := 0; i+1 < len(lines); i += 2 {
		fields[lines[i]] = lines[i+1]
	}
	return fields
}

// CatchUp returns once these replicas have everything that the master has; without arguments, once all that run have.
func (s *RedisSentinel) CatchUp(t testing.TB, replicas ...*Redis) {
	t.Helper()
	ctx := patient(t)
	master := s.Master(t)
	if len(replicas) == 0 {
		replicas = without(runningOf(s.Nodes), master)
	}
	check(t, catchUp(ctx, master, replicas))
}

// Cut cuts the replication of a replica, which stays reachable for the Sentinels and for clients and can be promoted. It
// gets nothing that the master writes from now on, until Repair.
func (s *RedisSentinel) Cut(t testing.TB, replica *Redis) {
	t.Helper()
	ctx := patient(t)
	check(t, cut(ctx, s.Nodes, replica))
}

// Repair resumes and starts what a test has paused, killed and cut off, and returns once the Sentinels agree and the
// replicas follow the master.
func (s *RedisSentinel) Repair(t testing.TB) {
	t.Helper()
	ctx := patient(t)
	check(t, wake(ctx, s.Nodes))
	check(t, wake(ctx, s.Sentinels))
	check(t, s.settle(ctx))
}

// Failover makes the Sentinels promote a replica as if the master were down, whether it is or not, and returns the new
// master once all of them name it. They choose as ever: the replica that has received most. What it has not received is
// lost.
func (s *RedisSentinel) Failover(t testing.TB) *Redis {
	t.Helper()
	ctx := patient(t)
	old := s.Master(t)
	check(t, s.offsetsKnown(ctx, old))
	// It refuses as long as no replica has answered it of late.
	_, err := s.Sentinels[0].insist(ctx, "SENTINEL", "FAILOVER", sentinelMaster)
	check(t, err)
	check(t, s.conclude(ctx, old))
	promoted := s.Promoted(t, old)
	check(t, s.follow(ctx, promoted))
	return promoted
}

// conclude makes the first Sentinel end its failover once a replica is promoted. It would wait for the others to follow
// the new master, also for those that are down, before it tells clients.
func (s *RedisSentinel) conclude(ctx context.Context, old *Redis) error {
	if err := poll(ctx, "promoted", func() (bool, error) {
		named, err := s.master(ctx, s.Sentinels[0])
		return named != old, err
	}); err != nil {
		return err
	}
	if err := s.setFailoverTimeout(ctx, "1"); err != nil {
		return err
	}
	return errors.Join(poll(ctx, "ended", func() (bool, error) {
		text, err := s.Sentinels[0].insist(ctx, "SENTINEL", "MASTER", sentinelMaster)
		return !strings.Contains(pairs(text)["flags"], "failover"), err
	}), s.setFailoverTimeout(ctx, failoverTimeout))
}

// failoverTimeout is how long a Sentinel waits for each part of a failover, in milliseconds.
const failoverTimeout = "20000"

func (s *RedisSentinel) setFailoverTimeout(ctx context.Context, ms string) error {
	_, err := s.Sentinels[0].insist(ctx, "SENTINEL", "SET", sentinelMaster, "failover-timeout", ms)
	return err
}

// Promoted returns the new master, once all Sentinels name one that is not old and it accepts writes.
func (s *RedisSentinel) Promoted(t testing.TB, old *Redis) (promoted *Redis) {
	t.Helper()
	ctx := patient(t)
	check(t, poll(ctx, "promoted", func() (bool, error) {
		for _, sentinel := range runningOf(s.Sentinels) {
			named, err := s.master(ctx, sentinel)
			if err != nil || named == old || promoted != nil && named != promoted {
				promoted = nil
				return false, err
			}
			promoted = named
		}
		state, err := promoted.info(ctx, "replication")
		return state["role"] == "master", err
	}))
	return promoted
}

// offsetsKnown waits until the first Sentinel knows how much each running replica has received. It would choose by what
// it knew half a second ago.
func (s *RedisSentinel) offsetsKnown(ctx context.Context, master *Redis) error {
	return poll(ctx, "known", func() (bool, error) {
		known, err := s.Sentinels[0].insist(ctx, "SENTINEL", "REPLICAS", sentinelMaster)
		if err != nil {
			return false, err
		}
		for _, r := range without(runningOf(s.Nodes), master) {
			state, err := r.info(ctx, "replication")
			if err != nil {
				return false, err
			}
			_, about, _ := strings.Cut(known, "\n"+r.address()+"\n")
			about, _, _ = strings.Cut(about, "\nname\n")
			if pairs(strings.TrimSpace(about))["slave-repl-offset"] != state["slave_repl_offset"] {
				return false, nil
			}
		}
		return true, nil
	})
}
