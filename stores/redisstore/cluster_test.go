package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// cluster is the cluster of all tests here, one after the other.
var cluster servers.SharedRedisCluster

// clusterStores returns stores with a client each, on one prefix.
func clusterStores(t testing.TB, c *servers.RedisCluster, n int, o Options) []*Store {
	t.Helper()
	o.Prefix = retrysafe.NewOwner().String() + ":"
	var stores []*Store
	for range n {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addresses(), DisableCache: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		s := openOn(t, client, o)
		s.roleTimeout = testkit.Patience // no server is down for long
		stores = append(stores, s)
	}
	return stores
}

// slot returns the slot of a record, which is that of its digest between the braces: CRC-16/XMODEM.
func slot(id string) int { return slotOf(params(id).Key.Digest().String()) }

func slotOf(tag string) int {
	crc := uint16(0)
	for _, b := range []byte(tag) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % 16384)
}

// busySlots returns slots with n keys each.
func busySlots(slots, n int) map[int][]string {
	found, bySlot := map[int][]string{}, map[int][]string{}
	for i := 0; len(found) < slots; i++ {
		id := fmt.Sprint("order-", i)
		at := slot(id)
		bySlot[at] = append(bySlot[at], id)
		if len(bySlot[at]) == n {
			found[at] = bySlot[at]
		}
	}
	return found
}

func TestSoakCluster(t *testing.T) {
	t.Parallel()
	rounds := soak.Times(t, 1)
	t.Run("slots move", func(t *testing.T) { testSlotsMove(t, rounds) })
	t.Run("slots move with older records", testOlderMove)
	t.Run("records are found", testFindInCluster)
	t.Run("a master is down", testMasterDown)
	t.Run("masters are replaced", func(t *testing.T) { testMastersReplaced(t, rounds) })
}

// While slots move from master to master, with half of their keys here and half there, each key runs once, every caller
// gets its answer, and no call fails: the client follows. Seen to fail with claims that pass over the record (4416 of
// 4608 runs were one too many), and with keys that were deleted instead of moved (48 answers were lost).
func testSlotsMove(t *testing.T, rounds int) {
	c := cluster.Get(t)
	for range rounds {
		callers := newCrowd(t, clusterStores(t, c, 3, Options{Index: true}))
		for at, keys := range busySlots(16, 12) {
			moveUnder(t, c, callers, at, keys)
		}
		n := callers.count(t)
		if n.doubled+n.lost+len(callers.wrong)+len(callers.errs) > 0 || n.acknowledged != len(callers.keys) {
			t.Fatalf("got %+v, %q, and errors %v", n, callers.wrong, callers.errs)
		}
	}
}

// moveUnder moves a slot while callers use its keys. A part of them is new in each stage of the move.
func moveUnder(t *testing.T, c *servers.RedisCluster, callers *crowd, at int, keys []string) {
	t.Helper()
	part := len(keys) / 4
	callers.ask(keys[:part])
	masters := c.Masters(t)
	from := slices.Index(masters, c.Owner(t, at))
	m := c.BeginMove(t, at, masters[(from+1)%len(masters)])
	callers.await()
	callers.ask(keys[part : 2*part])
	m.MoveKeys(t, part)
	callers.await()
	callers.ask(keys[2*part : 3*part])
	for m.MoveKeys(t, 100) > 0 {
	}
	callers.await()
	callers.ask(keys[3*part:])
	m.Finish(t)
	callers.await()
}

// Masters are killed, and their only replicas take their places although they were cut off before: calls that wait for the
// replica are not acknowledged any more, their callers repeat them, and nothing is doubled or lost. Slots move between
// the failovers. Seen to fail without WaitReplicas: 9 of 48 answers were lost.
func testMastersReplaced(t *testing.T, rounds int) {
	c := cluster.Get(t)
	for range rounds {
		callers := newCrowd(t, clusterStores(t, c, 3, Options{WaitReplicas: 1, WaitTimeout: 100 * time.Millisecond}))
		busy := busySlots(6, 8)
		for i, at := range slices.Sorted(maps.Keys(busy)) {
			keys := busy[at]
			if i%2 == 1 {
				moveUnder(t, c, callers, at, keys)
				continue
			}
			callers.ask(keys[:3])
			master := c.Owner(t, at)
			replica := c.ReplicasOf(t, master)[0]
			c.Cut(t, replica)
			callers.ask(keys[3:6])
			callers.progress(100)
			master.Kill(t)
			c.Failover(t, replica)
			callers.ask(keys[6:])
			c.Repair(t)
			callers.await()
		}
		n := callers.count(t)
		if n.doubled+n.lost+len(callers.wrong) > 0 || n.acknowledged != len(callers.keys) {
			t.Fatalf("got %+v, %q", n, callers.wrong)
		}
	}
}

// A key that is claimed anew, while people may still read its earlier record, has its records in two keys of the server.
// When one of them has moved and the other has not, calls wait for the other; none fails, no record is lost, and the
// cluster can go on moving. Seen to fail with the second key not named by the calls, but put together in the scripts.
func testOlderMove(t *testing.T) {
	c := cluster.Get(t)
	s := clusterStores(t, c, 1, Options{Index: true})[0]
	for at, keys := range busySlots(2, 2) {
		for _, id := range keys {
			renew(t, s, id, 2)
		}
		masters := c.Masters(t)
		from := slices.Index(masters, c.Owner(t, at))
		m := c.BeginMove(t, at, masters[(from+1)%len(masters)])
		first, second := s.key(params(keys[0]).Key.Digest()), s.key(params(keys[1]).Key.Digest())+olderSuffix
		m.Move(t, first, second)
		var renewed sync.WaitGroup
		for _, id := range keys {
			impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := s.Claim(impatient, params(id))
			if !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(fmt.Sprint(err), "TRYAGAIN") {
				t.Errorf("a claim while the records are apart: got %v, want it to wait", err)
			}
			cancel()
			renewed.Go(func() { renew(t, s, id, 4) })
		}
		for m.MoveKeys(t, 100) > 0 {
		}
		m.Finish(t)
		renewed.Wait()
		for _, id := range keys {
			records, err := s.Inspect(t.Context(), params(id).Key.Digest())
			if err != nil || len(records) != 6 {
				t.Errorf("%s has %d records (%v), want 6", id, len(records), err)
			}
		}
	}
}

// Claims add their records to indexes on all servers, while a slot of these moves, and Find merges what they have. What
// there is no index for is said. Seen to fail with the key of the bucket left out of addToIndex.
func testFindInCluster(t *testing.T) {
	c := cluster.Get(t)
	s := clusterStores(t, c, 1, Options{Index: true})[0]
	var want []string
	claim := func(n int) {
		for range n {
			id := fmt.Sprint("order-", len(want))
			claimTagged(t, s, id, "1")
			acquire(t, s, "other "+id)
			want = append([]string{id}, want...)
		}
	}
	found := func() {
		t.Helper()
		eventually(t, "the records are found", func() bool {
			return slices.Equal(findIDs(t, s, retrysafe.FindParams{Tag: "order=1"}), want)
		})
	}
	claim(40)
	found()
	at := slotOf("3")
	masters := c.Masters(t)
	from := slices.Index(masters, c.Owner(t, at))
	m := c.BeginMove(t, at, masters[(from+1)%len(masters)])
	m.MoveKeys(t, 1) // a bucket, or the list of buckets
	claim(40)
	for m.MoveKeys(t, 100) > 0 {
	}
	m.Finish(t)
	found()
	for _, id := range []string{"order-5", "other order-5"} {
		if got := findIDs(t, s, retrysafe.FindParams{ID: id}); !slices.Equal(got, []string{id}) {
			t.Errorf("%s: found %q", id, got)
		}
	}
	if err := findAndSee(t, clusterStores(t, c, 1, Options{Index: true})[0]); err != nil {
		t.Error(err)
	}
	_, err := s.Find(t.Context(), retrysafe.FindParams{ScopePrefix: "t"})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Find by a scope: %v", err)
	}
}

// A program that starts while one master is down serves the keys of the others, and says that it could not read that
// one's settings. What needs all servers is an error. Seen to fail with readMasters returning the error of any server.
func testMasterDown(t *testing.T) {
	c := cluster.Get(t)
	open := func() (*Store, error) {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addresses(), DisableCache: true})
		if err != nil {
			return nil, err
		}
		t.Cleanup(client.Close)
		return New(t.Context(), client, Options{Prefix: retrysafe.NewOwner().String() + ":", Index: true})
	}
	down := c.Masters(t)[0]
	down.Kill(t)
	defer c.Repair(t)
	s, err := open()
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	risks, err := s.Risks(t.Context())
	if err != nil || !strings.Contains(fmt.Sprint(risks), down.Address()+" does not answer") {
		t.Errorf("Risks: %v, %v; want one that names %s", risks, err, down.Address())
	}
	if _, err := s.List(t.Context(), retrysafe.ListParams{}); err == nil {
		t.Error("List: no error, and records are missing")
	}
}

// renew claims and completes a key so often, with a record that holds the key for no time but is kept for people.
func renew(t *testing.T, s *Store, id string, times int) {
	p := params(id)
	p.Keep = retrysafe.Retention{Replay: time.Microsecond, Key: time.Microsecond, Audit: time.Hour}
	for range times {
		p.Owner = retrysafe.NewOwner()
		claim, err := s.Claim(t.Context(), p)
		if err == nil && claim.Verdict != retrysafe.Acquired {
			err = fmt.Errorf("the key is %v", claim.Verdict)
		}
		if err == nil {
			err = s.Complete(t.Context(), claim.Lease, retrysafe.Result{}, p.Keep)
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}
