package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// lifetime is how long Redis keeps the key of a record.
func lifetime(t testing.TB, s *Store, k retrysafe.Key) time.Duration {
	t.Helper()
	left := pttl(t, s, s.key(k.Digest()))
	if left < 0 {
		t.Fatalf("PTTL of %s: %v", k, left)
	}
	return left
}

// pttl is how long Redis keeps a key; negative if it is not there, or is kept for ever.
func pttl(t testing.TB, s *Store, key string) time.Duration {
	t.Helper()
	ms, err := s.client.Do(context.Background(), s.client.B().Pttl().Key(key).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	if ms < 0 {
		return -1
	}
	return storekit.Duration(ms * 1000)
}

// margin is how much longer than its deadlines a record is kept: so much may the clocks of servers differ, or be set
// back, before a fence can shrink.
const margin = 10 * time.Minute

// keeps expects the key to live longer than d, and not much longer than the margin after that.
func keeps(t testing.TB, s *Store, k retrysafe.Key, d time.Duration) {
	t.Helper()
	const slack = 2 * time.Minute // for the test
	if got := lifetime(t, s, k); got < d+margin-slack || got > d+margin+time.Second {
		t.Errorf("the server keeps %s for %v, want %v and %v", k, got, d, margin)
	}
}

// A record lives longer than its own deadlines after each call that changes them. Seen to fail with PEXPIREAT taken out
// of extend.lua and out of release.lua, with the Key window left out of the lifetime in claim.lua, and with Audit not
// counted in complete.lua.
func TestLifetimeFollowsDeadlines(t *testing.T) {
	t.Parallel()
	s, ctx := openTest(t), context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p := params("k")
	p.Keep = retrysafe.Retention{Replay: time.Hour, Key: 2 * time.Hour, Audit: 50 * time.Hour}
	c, err := s.Claim(ctx, p)
	must(err)
	keeps(t, s, p.Key, p.Lease+2*time.Hour)
	must(s.Extend(ctx, c.Lease, 5*time.Hour))
	keeps(t, s, p.Key, 7*time.Hour)
	must(s.Extend(ctx, c.Lease, 0))
	keeps(t, s, p.Key, 2*time.Hour)
	p.Owner, p.TakeOver, p.Lease = retrysafe.NewOwner(), true, 9*time.Hour
	c, err = s.Claim(ctx, p)
	must(err)
	keeps(t, s, p.Key, 11*time.Hour)
	must(s.Checkpoint(ctx, c.Lease, retrysafe.StepResult{Name: "a"}))
	keeps(t, s, p.Key, 11*time.Hour)
	must(s.Release(ctx, c.Lease))
	keeps(t, s, p.Key, 2*time.Hour)
	p.Owner = retrysafe.NewOwner()
	c, err = s.Claim(ctx, p)
	must(err)
	support := retrysafe.Retention{Replay: time.Hour, Key: time.Hour, Audit: 30 * time.Hour}
	must(s.Complete(ctx, c.Lease, retrysafe.Result{}, support))
	keeps(t, s, p.Key, 30*time.Hour)
	q := params("released")
	c, err = s.Claim(ctx, q)
	must(err)
	must(s.Release(ctx, c.Lease))
	keeps(t, s, q.Key, 0)
}

// Once nothing may be read of a key, nothing is left of it on the server, older records included. Seen to fail with
// PEXPIREAT taken out of claim.lua, where a record moves to the older ones.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	s, ctx := openTest(t), context.Background()
	short := retrysafe.Retention{Replay: time.Hour, Key: time.Hour, Audit: 24 * time.Hour}
	for range 3 {
		l := acquire(t, s, "k")
		if err := s.Complete(ctx, l, retrysafe.Result{}, short); err != nil {
			t.Fatal(err)
		}
		age(t, s, 2*time.Hour)
	}
	if n := keysOf(t, s); n != 2 {
		t.Fatalf("there are %d keys, want the record and the list of older ones", n)
	}
	age(t, s, 24*time.Hour+margin)
	if n := keysOf(t, s); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// An older record that nobody may read any more is dropped when the next one moves to the list. Seen to fail with the
// loop of claim.lua left at once.
func TestOlderRecordsAreTrimmed(t *testing.T) {
	t.Parallel()
	s, ctx := openTest(t), context.Background()
	for _, audit := range []time.Duration{4 * time.Hour, 48 * time.Hour, 48 * time.Hour, time.Hour} {
		l := acquire(t, s, "k")
		keep := retrysafe.Retention{Replay: time.Hour, Key: time.Hour, Audit: audit}
		if err := s.Complete(ctx, l, retrysafe.Result{}, keep); err != nil {
			t.Fatal(err)
		}
		age(t, s, 100*time.Minute)
	}
	list := s.key(params("k").Key.Digest()) + olderSuffix
	n, err := s.client.Do(ctx, s.client.B().Llen().Key(list).Build()).AsInt64()
	if err != nil || n != 2 {
		t.Errorf("%d older records, %v; want 2", n, err)
	}
}

// keysOf counts the keys of a store's records. All others end by themselves.
func keysOf(t testing.TB, s *Store) int {
	t.Helper()
	n := 0
	for _, key := range keysUnder(t, s, "") {
		if pttl(t, s, key) < 0 {
			t.Errorf("%s does not end", key)
		}
		if strings.HasPrefix(key, s.options.Prefix+"{") {
			n++
		}
	}
	return n
}

// keysUnder lists the keys of a store.
func keysUnder(t testing.TB, s *Store, start string) []string {
	t.Helper()
	pattern := s.options.Prefix + start + "*"
	keys, err := s.client.Do(context.Background(), s.client.B().Keys().Pattern(pattern).Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// The longest durations end in the year 2255, which is the last instant of a script.
func TestLongestLifetime(t *testing.T) {
	t.Parallel()
	s, ctx := openTest(t), context.Background()
	const ever = time.Duration(1<<63 - 1)
	p := params("k")
	p.Lease, p.Keep = ever, retrysafe.Retention{Replay: ever, Key: ever, Audit: ever}
	c, err := s.Claim(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if left := c.Record.LeaseLeft; left < 200*365*24*time.Hour {
		t.Errorf("LeaseLeft: %v, want more than 200 years", left)
	}
	if got := lifetime(t, s, p.Key); got < 200*365*24*time.Hour {
		t.Errorf("the server keeps the record for %v, want more than 200 years", got)
	}
}

// A fence grows though the clock was set back by less than the margin, and the record of the key was released or has
// expired in between. Seen to fail with the fence of release.lua forgotten, and with claim.lua taking the time for the
// fence.
func TestFenceGrowsOverAClockSetBack(t *testing.T) {
	t.Parallel()
	s, ctx := openTest(t), context.Background()
	expired := claimAhead(t, s, "expired", margin/2)
	if err := s.Complete(ctx, expired, retrysafe.Result{}, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	age(t, s, retrysafe.DefaultRetention+margin/2-time.Minute) // it has expired, and the server has kept it
	released := claimAhead(t, s, "released", margin/2)
	if err := s.Release(ctx, released); err != nil {
		t.Fatal(err)
	}
	for _, l := range []retrysafe.Lease{expired, released} {
		c, err := s.Claim(ctx, params(l.Key.ID))
		if err != nil || c.Verdict != retrysafe.Acquired || c.Lease.Fence != l.Fence+1 {
			t.Errorf("%s: %v with fence %d, %v; want fence %d", l.Key.ID, c.Verdict, c.Lease.Fence, err, l.Fence+1)
		}
	}
}

// claimAhead claims a key as a server does whose clock is ahead of the present one. The record's instants do not matter
// here.
func claimAhead(t testing.TB, s *Store, id string, d time.Duration) retrysafe.Lease {
	t.Helper()
	l := acquire(t, s, id)
	l.Fence += d.Microseconds()
	set := s.client.B().Setrange().Key(s.key(l.Key.Digest())).Offset(fenceAt).
		Value(string(order.AppendUint64(nil, uint64(l.Fence)))).Build()
	if err := s.client.Do(context.Background(), set).Error(); err != nil {
		t.Fatal(err)
	}
	return l
}

// A record of the size of a small JSON API's takes no more than 430 bytes, and 300 in the index.
func TestMemoryOfARecord(t *testing.T) {
	t.Parallel()
	s := openOn(t, connect(t, shared.Get(t).Address()), Options{Prefix: "10letters:", Index: true}) // as long as the default
	const records, limit = 1000, 430
	var most atomic.Int64
	together(t, 20, func(worker int) error {
		for i := worker; i < records; i += 20 {
			n, err := memoryOf(s, i)
			if err != nil {
				return err
			}
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
		}
		return nil
	})
	t.Logf("the largest of %d records takes %d bytes", records, most.Load())
	if most.Load() > limit {
		t.Errorf("a record takes %d bytes, want %d at most", most.Load(), limit)
	}
	_, bytes, err := s.indexSize(t.Context())
	t.Logf("the index takes %d bytes for each record", bytes/records)
	if err != nil || bytes/records > 300 {
		t.Errorf("the index takes %d bytes for each record, %v", bytes/records, err)
	}
}

// memoryOf ends the i-th key and returns what its record takes.
func memoryOf(s *Store, i int) (int64, error) {
	ctx := context.Background()
	p := params(fmt.Sprintf("0b1f5bd0-7c57-4ac4-8d5b-%012d", i))
	p.Key.Scope = "v1/tenant-17/POST %2Fpayments"
	p.Fingerprint = "raw1:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
	c, err := s.Claim(ctx, p)
	if err != nil {
		return 0, err
	}
	r := retrysafe.Result{
		Code: 201, Meta: []byte("Content-Type: application/json\n"),
		Body: []byte(`{"id":"pay_1NQ9aW2eZvKYlo2C","status":"succeeded"}`),
	}
	if err := s.Complete(ctx, c.Lease, r, retrysafe.Retention{}); err != nil {
		return 0, err
	}
	return s.client.Do(ctx, s.client.B().MemoryUsage().Key(s.key(p.Key.Digest())).Build()).AsInt64()
}
