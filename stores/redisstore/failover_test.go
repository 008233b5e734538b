package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// What a failover loses, counted: replication is cut off, not slowed down, so that the counts do not depend on time.

// failover is a failover and what it is to leave of the claims that were acknowledged before.
type failover struct {
	name string
	wait int // replicas that a call waits for
	cut  int // replicas that get nothing any more
	// withMaster says that a replica which gets everything dies with the master.
	withMaster bool
	want       tally
}

// Asynchronous replication promises nothing: what no replica has received is lost, and runs again. The Sentinels
// promote the replica that has received most.
func TestFailoverLosesWhatNoReplicaHasReceived(t *testing.T) {
	t.Parallel()
	failOver(t,
		failover{name: "no replica receives", cut: 2, want: tally{acknowledged: attempts, lost: attempts, doubled: attempts}},
		failover{name: "one replica receives", cut: 1, want: tally{acknowledged: attempts}})
}

// With WaitReplicas: 1, a claim is acknowledged once a replica has confirmed it, and survives the promotion of that
// replica. Seen to fail with WaitReplicas left unread: all claims were acknowledged, lost and doubled.
func TestFailoverKeepsWhatTheReplicaHasConfirmed(t *testing.T) { onBoth(t, testFailoverKeeps) }

func testFailoverKeeps(t *testing.T, o servers.RedisOptions) {
	failOverOn(t, o,
		failover{name: "no replica confirms", wait: 1, cut: 2},
		failover{name: "one replica confirms", wait: 1, cut: 1, want: tally{acknowledged: attempts}})
}

// WAIT is no consensus: a claim that one of two replicas has confirmed is lost with that replica and the master. A store
// that waits for all replicas does not acknowledge it, at the price that a replica which is down holds up every call.
// Seen to fail, in the cases of two, with WAIT for one less.
func TestWAITIsNoConsensus(t *testing.T) {
	t.Parallel()
	failOver(t,
		failover{
			name: "one confirms and dies with the master", wait: 1, cut: 1, withMaster: true,
			want: tally{acknowledged: attempts, lost: attempts, doubled: attempts},
		},
		failover{name: "all must confirm, and one cannot", wait: 2, cut: 1, withMaster: true},
		failover{name: "all confirm", wait: 2, withMaster: true, want: tally{acknowledged: attempts}})
}

// failOver counts what a master, two replicas and three Sentinels keep in each case.
func failOver(t *testing.T, cases ...failover) {
	t.Helper()
	failOverOn(t, servers.RedisOptions{}, cases...)
}

func failOverOn(t *testing.T, o servers.RedisOptions, cases ...failover) {
	t.Helper()
	group := startGroup(t, o)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			group.Repair(t)
			s := sentinelStore(t, group, Options{WaitReplicas: c.wait, WaitTimeout: 20 * time.Millisecond})
			group.CatchUp(t)
			master, replicas := group.Master(t), group.Replicas(t)
			for _, r := range replicas[:c.cut] {
				group.Cut(t, r)
			}
			if c.wait <= len(replicas)-c.cut {
				s.options.WaitTimeout = time.Minute // they will confirm, however busy the machine is
			}
			before := claimAll(t, s)
			if c.cut < len(replicas) {
				group.CatchUp(t, replicas[c.cut:]...)
			}
			master.Kill(t)
			if c.withMaster {
				replicas[len(replicas)-1].Kill(t)
			}
			group.Failover(t)
			s.options.WaitReplicas = 0
			if got := surviving(t, s, before); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// A master that was taken for dead comes back, and is not told that another one has its place. A client that still talks
// to it gets keys that the new master has given away; unless its claims wait for a replica, of which it has none left.
// Seen to fail, for the store that waits, with WaitReplicas left unread.
func TestMasterThatComesBack(t *testing.T) {
	t.Parallel()
	group := startGroup(t, servers.RedisOptions{})
	old := group.Master(t)
	stale := openOn(t, connect(t, old.Address()), Options{Prefix: "one:"})
	waiting := openOn(t, connect(t, old.Address()),
		Options{Prefix: "two:", WaitReplicas: 1, WaitTimeout: 20 * time.Millisecond})
	group.CatchUp(t)
	old.Pause(t)
	group.Failover(t)
	group.CatchUp(t) // the other replica follows the new master
	for _, sentinel := range group.Sentinels {
		sentinel.Pause(t) // they would tell it
	}
	old.Resume(t)
	now := connect(t, group.Nodes[indexOfMaster(t, group, old)].Address())
	for _, c := range []struct {
		s    *Store
		want tally
	}{
		{stale, tally{acknowledged: attempts, lost: attempts, doubled: attempts}},
		{waiting, tally{}},
	} {
		before := claimAll(t, c.s)
		if got := surviving(t, openOn(t, now, Options{Prefix: c.s.options.Prefix}), before); got != c.want {
			t.Errorf("with WAIT %d: got %+v, want %+v", c.s.options.WaitReplicas, got, c.want)
		}
	}
}

// indexOfMaster returns which of the servers is a master other than old.
func indexOfMaster(t testing.TB, group *servers.RedisSentinel, old *servers.Redis) int {
	t.Helper()
	return slices.IndexFunc(group.Nodes, func(r *servers.Redis) bool {
		return r != old && strings.HasPrefix(r.Command(t, "ROLE"), "master")
	})
}

func startGroup(t testing.TB, o servers.RedisOptions) *servers.RedisSentinel {
	t.Helper()
	return servers.StartRedisSentinel(t, servers.RedisSentinelOptions{
		Settings: map[string]string{"appendfsync": "no"}, Valkey: o.Valkey,
	})
}

// surviving claims the keys again, as retries of their requests would, and counts those that are free: their work runs a
// second time.
func surviving(t testing.TB, s *Store, acknowledged []string) tally {
	t.Helper()
	got := tally{acknowledged: len(acknowledged)}
	for _, id := range acknowledged {
		switch v := claimed(t, s, id).Verdict; v {
		case retrysafe.InFlight:
		case retrysafe.Acquired:
			got.lost++
			got.doubled++
		default:
			t.Errorf("a claim that was acknowledged is %v", v)
		}
	}
	t.Logf("acknowledged %d of %d, lost %d, doubled %d", got.acknowledged, attempts, got.lost, got.doubled)
	return got
}

// attempts is the number of claims before each failover.
const attempts = 20

// sentinelStore returns a store with a client that asks the Sentinels for the master.
func sentinelStore(t testing.TB, group *servers.RedisSentinel, o Options) *Store {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: group.SentinelAddresses(), DisableCache: true,
		Sentinel: rueidis.SentinelOption{MasterSet: group.MasterSet()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return openOn(t, client, o)
}

// claimAll claims keys, each once, and returns those whose claims were acknowledged. The others were refused because
// too few replicas have confirmed them.
func claimAll(t testing.TB, s *Store) (acknowledged []string) {
	t.Helper()
	for i := range attempts {
		p := params(fmt.Sprint("order-", i))
		p.Lease = time.Hour // it must not run out before the failover has ended
		c, err := s.Claim(context.Background(), p)
		switch {
		case err == nil && c.Verdict == retrysafe.Acquired:
			acknowledged = append(acknowledged, p.Key.ID)
		case !errors.Is(err, ErrNotReplicated):
			t.Fatalf("claim of a fresh key: %v, %v", c.Verdict, err)
		}
	}
	return acknowledged
}

// claimed claims a key after a failover, as a retry of its request would.
func claimed(t testing.TB, s *Store, id string) retrysafe.Claim {
	t.Helper()
	for ctx := t.Context(); ; {
		c, err := s.Claim(ctx, params(id))
		if err == nil {
			return c
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}
