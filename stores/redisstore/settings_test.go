package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// startSet starts a server with these settings.
func startSet(t *testing.T, settings map[string]string) *servers.Redis {
	t.Helper()
	return servers.StartRedis(t, servers.RedisOptions{Settings: settings})
}

// wantRisks expects Risks to name these settings.
func wantRisks(t *testing.T, s *Store, want ...string) {
	t.Helper()
	if names := testkit.Settings(t, s); !slices.Equal(names, want) {
		t.Errorf("the risks are %q, want %q", names, want)
	}
}

// Seen to fail with the cases of appendonly, of appendfsync and of the eviction policy taken out.
func TestRisks(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	s := openOn(t, connect(t, r.Address()), Options{AllowEviction: true})
	for _, c := range []struct {
		set  string
		want []string
	}{
		{"", nil},
		{"appendfsync everysec", []string{"appendfsync everysec"}},
		{"appendfsync no", []string{"appendfsync no"}},
		{"appendonly no", []string{"appendonly no"}},
		{"maxmemory-policy allkeys-lru", []string{"appendonly no", "maxmemory-policy allkeys-lru"}},
		{"maxmemory-policy noeviction", []string{"appendonly no"}},
	} {
		if c.set != "" {
			r.Command(t, append([]string{"CONFIG", "SET"}, strings.Fields(c.set)...)...)
		}
		wantRisks(t, s, c.want...)
	}
}

// Seen to fail with replicas not counted, and with min-replicas-to-write not read.
func TestRisksOfReplicas(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	startReplica(t, r, servers.RedisOptions{})
	client := connect(t, r.Address())
	s, waiting := openOn(t, client, Options{}), openOn(t, client, Options{WaitReplicas: 1})
	wantRisks(t, s, "asynchronous replicas", "min-replicas-to-write 0")
	r.Command(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	wantRisks(t, waiting, "WaitReplicas 1")
}

// A store on a replica could not claim anything. Seen to fail with the role not read.
func TestReplicaIsRefused(t *testing.T) {
	t.Parallel()
	replica := startReplica(t, startSet(t, nil), servers.RedisOptions{})
	_, err := New(context.Background(), connect(t, replica.Address()), Options{})
	if err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("New: %v, want an error that says replica", err)
	}
}

// The policies that delete keys which have an expiry delete records too. Seen to fail with evicts returning false.
func TestEvictionIsRefused(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	client := connect(t, r.Address())
	for _, policy := range []string{"allkeys-lru", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-ttl"} {
		r.Command(t, "CONFIG", "SET", "maxmemory-policy", policy)
		_, err := New(context.Background(), client, Options{})
		if !errors.Is(err, ErrEviction) || !strings.Contains(err.Error(), policy) {
			t.Errorf("New with %s: %v, want ErrEviction and the policy's name", policy, err)
		}
		if _, err := New(context.Background(), client, Options{AllowEviction: true}); err != nil {
			t.Errorf("New with %s and AllowEviction: %v", policy, err)
		}
	}
}

// The settings of managed servers often cannot be read. Seen to fail with the error of CONFIG GET returned by New.
func TestUnreadableSettingsAreARisk(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	r.Command(t, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-config", "-info")
	client := connectAs(t, r.Address(), "limited")
	wantRisks(t, openOn(t, client, Options{}), "CONFIG GET is refused")
}

// rights are those that the documentation lists.
var rights = []string{
	"~retrysafe:*", "&retrysafe:*", "+evalsha", "+eval", "+time", "+get", "+set", "+getrange", "+setrange", "+append",
	"+pexpireat", "+pexpiretime", "+lpush", "+lrange", "+lset", "+lindex", "+rpop", "+spublish", "+ssubscribe",
	"+sunsubscribe", "+scan", "+memory|usage", "+dbsize", "+randomkey", "+info", "+config|get", "+wait", "+role", "+cluster|slots", "+asking",
	"+ping", "+zadd", "+zrange", "+zrem", "+zremrangebyscore", "+hgetall", "+hset", "+hdel",
}

// A user with the documented rights can do everything. Seen to fail with any one of them taken out, apart from those
// of clusters and replicas, from RPOP, SUNSUBSCRIBE, ZREM, ZREMRANGEBYSCORE and HDEL, which tidy up, and from INFO
// and CONFIG GET, without which the settings are not known.
func TestRights(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	r.Command(t, append([]string{"ACL", "SETUSER", "limited", "on", ">secret"}, rights...)...)
	s := openOn(t, connectAs(t, r.Address(), "limited"), Options{Prefix: "retrysafe:", Index: true})
	if err := everything(t, s); err != nil {
		t.Error(err)
	}
}

// everything calls each method of the store in each of its ways.
func everything(t *testing.T, s *Store) error {
	t.Helper()
	ctx := context.Background()
	changed, stop, err := s.Watch(ctx, params("k").Key)
	if err != nil {
		return err
	}
	defer stop()
	short := retrysafe.Retention{Replay: 1, Key: 1, Audit: 24 * 3600e9}
	var last retrysafe.Lease
	for range 2 { // the second time an ended record moves to the older ones
		p := params("k")
		c, err := s.Claim(ctx, p)
		if err != nil || c.Verdict != retrysafe.Acquired {
			return fmt.Errorf("claim: %v, %w", c.Verdict, err)
		}
		last = c.Lease
		step := retrysafe.StepResult{Name: "a", Data: []byte("1")}
		err = errors.Join(s.Extend(ctx, c.Lease, p.Lease), s.Checkpoint(ctx, c.Lease, step),
			s.Checkpoint(ctx, c.Lease, step), s.Complete(ctx, c.Lease, retrysafe.Result{}, short))
		if err != nil {
			return err
		}
	}
	<-changed
	for _, checkpoints := range []int{0, 1} {
		c, err := s.Claim(ctx, params("released"))
		for range checkpoints {
			err = errors.Join(err, s.Checkpoint(ctx, c.Lease, retrysafe.StepResult{Name: "a"}))
		}
		if err := errors.Join(err, s.Release(ctx, c.Lease)); err != nil {
			return err
		}
	}
	_, err = s.Inspect(ctx, params("k").Key.Digest())
	_, listErr := s.List(ctx, retrysafe.ListParams{})
	_, statsErr := s.Stats(ctx)
	_, _, sizeErr := s.Size(ctx)
	_, risksErr := s.Risks(ctx)
	purgeErr := s.Purge(ctx, last.Key.Digest(), last.Fence, retrysafe.StepResult{Name: retrysafe.AuditStepPrefix + "1"})
	return errors.Join(err, listErr, statsErr, sizeErr, risksErr, purgeErr, findAndSee(t, s))
}

// findAndSee finds a key by its tag, and adds a sighting to it.
func findAndSee(t *testing.T, s *Store) error {
	t.Helper()
	l := claimTagged(t, s, "tagged", "1")
	err := s.AddSightings(t.Context(), []retrysafe.KeySighting{{
		Digest: l.Key.Digest(), FirstFence: l.Fence, Sighting: retrysafe.Sighting{Kind: retrysafe.SeenReplayed, Count: 1},
	}})
	if err != nil {
		return err
	}
	if s.inScript == "" { // the claim has not waited for the index
		eventually(t, "the record is found", func() bool {
			return findIDs(t, s, retrysafe.FindParams{Tag: "order=1"}) != nil
		})
	}
	found, err := s.Find(t.Context(), retrysafe.FindParams{Tag: "order=1"})
	if err == nil && (len(found) != 1 || len(found[0].Sightings) != 1) {
		err = fmt.Errorf("found %+v", found)
	}
	return err
}

// A channel that the user may not subscribe to is an error of Watch at once: its caller polls. Seen to fail with the
// error not kept.
func TestWatchWithoutRightIsAnError(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	r.Command(t, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "resetchannels", "+@all")
	s := openOn(t, connectAs(t, r.Address(), "limited"), Options{})
	_, _, err := s.Watch(context.Background(), params("k").Key)
	if err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("Watch: %v, want NOPERM", err)
	}
}

func connectAs(t testing.TB, address, user string) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{address}, DisableCache: true, Username: user, Password: "secret",
		ClientSetInfo: rueidis.DisableClientSetInfo,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{Prefix: "a{b}"}, {Prefix: "a*"}, {Prefix: "é"}, {Prefix: strings.Repeat("x", 65)}, {WaitReplicas: -1},
	} {
		if _, err := New(context.Background(), nil, o); err == nil || !strings.Contains(err.Error(), "Options.") {
			t.Errorf("New with %+v: %v, want an error that names the option", o, err)
		}
	}
}
