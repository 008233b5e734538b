package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// counter counts the commands that a client sends.
type counter struct {
	rueidis.Client
	sent atomic.Int64
}

func (c *counter) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	c.sent.Add(1)
	return c.Client.Do(ctx, cmd)
}

// Each of the five methods is one round trip. Seen to fail with a PING before each script.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	c := &counter{Client: connect(t, shared.Get(t).Address())}
	s, ctx := openOn(t, c, Options{Index: true}), context.Background()
	if err := everything(t, s); err != nil { // the server has the scripts now
		t.Fatal(err)
	}
	c.sent.Store(0)
	claim, err := s.Claim(ctx, params("a"))
	errs := []error{
		err,
		s.Extend(ctx, claim.Lease, time.Minute),
		s.Checkpoint(ctx, claim.Lease, retrysafe.StepResult{Name: "a"}),
		s.Release(ctx, claim.Lease),
	}
	claim, err = s.Claim(ctx, params("a"))
	errs = append(errs, err, s.Complete(ctx, claim.Lease, retrysafe.Result{}, retrysafe.Retention{}))
	_, err = s.Claim(ctx, params("a"))
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if n := c.sent.Load(); n != 7 {
		t.Errorf("seven calls took %d round trips", n)
	}
}

// offset is how much the server has written to its append-only file and to replicas.
func offset(t testing.TB, s *Store) string {
	t.Helper()
	info, err := s.client.Do(context.Background(), s.client.B().Info().Section("persistence").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if size, ok := strings.CutPrefix(line, "aof_current_size:"); ok {
			return size
		}
	}
	t.Fatal("INFO has no aof_current_size")
	return ""
}

// A claim of a key that has ended or is in flight writes nothing, so that it waits for no disk; and the completion of a
// key that nobody watches publishes nothing. Seen to fail with a SET before the answers in claim.lua, and with the
// condition taken out before SPUBLISH in complete.lua.
func TestWhatWritesNothing(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	s, ctx := openOn(t, connect(t, r.Address()), Options{}), context.Background()
	claimAndComplete(t, s, "done")
	if _, err := s.Claim(ctx, params("in flight")); err != nil {
		t.Fatal(err)
	}
	before := offset(t, s)
	for id, want := range map[string]retrysafe.Verdict{"done": retrysafe.Done, "in flight": retrysafe.InFlight} {
		if c, err := s.Claim(ctx, params(id)); err != nil || c.Verdict != want {
			t.Errorf("Claim of %s: %v, %v", id, c.Verdict, err)
		}
	}
	if after := offset(t, s); after != before {
		t.Errorf("the append-only file grew from %s to %s", before, after)
	}
	if stats := r.Command(t, "INFO", "commandstats"); strings.Contains(stats, "cmdstat_spublish:") {
		t.Error("a completion was published that nobody watches")
	}
}

// A server that does not answer ends a call at its deadline, or at Options.Timeout if it has none; also while a call that
// waits for replicas connects. Seen to fail with bounded returning the context as it is, and with Dedicated waited for.
func TestCallsEnd(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{r.Address()}, DisableCache: true, ConnWriteTimeout: 2 * time.Minute, // longer than a call
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s, waiting := openOn(t, client, Options{}), openOn(t, client, Options{WaitReplicas: 1})
	s.options.Timeout, waiting.options.Timeout = 500*time.Millisecond, 500*time.Millisecond
	r.Pause(t)
	defer r.Resume(t)
	ctx := context.Background()
	for name, call := range map[string]func() error{
		"Claim":                  func() error { return claimError(s.Claim(ctx, params("k"))) },
		"Claim that waits":       func() error { return claimError(waiting.Claim(ctx, params("k"))) },
		"Claim with a deadline":  func() error { return claimBefore(ctx, s) },
		"Claim that waits, with": func() error { return claimBefore(ctx, waiting) },
		"List":                   func() error { _, err := s.List(ctx, retrysafe.ListParams{}); return err },
		"Stats":                  func() error { _, err := s.Stats(ctx); return err },
	} {
		began := time.Now()
		if err := call(); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Minute {
			t.Errorf("%s: %v after %v, want context.DeadlineExceeded at once", name, err, time.Since(began))
		}
	}
}

func claimBefore(ctx context.Context, s *Store) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Millisecond)
	defer cancel()
	return claimError(s.Claim(ctx, params("k")))
}

// Seen to fail with the flag allow-oom taken out of each script that has it, with PEXPIREAT taken out before the SET of
// a known key in claim.lua, and, with replicas, with PEXPIREAT taken out of confirm.lua.
func TestFullServer(t *testing.T) { onBoth(t, testFullServer) }

func testFullServer(t *testing.T, o servers.RedisOptions) {
	master := servers.StartRedis(t, o)
	startReplica(t, master, o)
	for _, wait := range []int{0, 1} {
		h := storetest.Harness{Open: func(t *testing.T) retrysafe.Store {
			master.Command(t, "CONFIG", "SET", "maxmemory", "0")
			return openOn(t, connect(t, master.Address()), Options{WaitReplicas: wait, WaitTimeout: 2 * time.Minute})
		}}
		storetest.RunFull(t, h, func(t *testing.T, _ retrysafe.Store) {
			master.Command(t, "CONFIG", "SET", "maxmemory", "1")
		})
	}
}

// Stores under different prefixes see nothing of each other, also if one prefix begins with the other.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	client := connect(t, startSet(t, nil).Address())
	a, b := openOn(t, client, Options{Prefix: "x:"}), openOn(t, client, Options{Prefix: "x:y:"})
	claimAndComplete(t, a, "k")
	claimAndComplete(t, b, "k")
	for _, s := range []*Store{a, b} {
		if found, err := s.List(context.Background(), retrysafe.ListParams{}); err != nil || len(found) != 1 {
			t.Errorf("List shows %d records, %v; want 1", len(found), err)
		}
	}
}

// What another program, or a later version, has written under the prefix is an error of each method that would change it,
// and stays as it is. Seen to fail with the check of the first byte taken out of each script.
func TestForeignValue(t *testing.T) {
	t.Parallel()
	s, ctx := openTest(t), context.Background()
	p := params("k")
	l := retrysafe.Lease{Key: p.Key, Owner: p.Owner, Fence: 1}
	key := s.key(p.Key.Digest())
	later := "\x02\x01\x00" + packLease(l) + strings.Repeat("\x7f", 200)
	for _, foreign := range []string{strings.Repeat("hello", 20), later, later[:stateAt] + "\x02" + later[flagsAt:]} {
		if err := s.client.Do(ctx, s.client.B().Set().Key(key).Value(foreign).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		_, _, watched := s.Watch(ctx, p.Key)
		_, inspected := s.Inspect(ctx, p.Key.Digest())
		for method, err := range map[string]error{
			"Claim":      claimError(s.Claim(ctx, p)),
			"Extend":     s.Extend(ctx, l, time.Hour),
			"Checkpoint": s.Checkpoint(ctx, l, retrysafe.StepResult{Name: "a"}),
			"Complete":   s.Complete(ctx, l, retrysafe.Result{}, retrysafe.Retention{}),
			"Release":    s.Release(ctx, l),
			"Watch":      watched,
			"Inspect":    inspected,
			"Purge":      s.Purge(ctx, p.Key.Digest(), 1, retrysafe.StepResult{Name: "a"}),
		} {
			if !errors.Is(err, errFormat) || !errors.Is(err, retrysafe.ErrUnreadable) {
				t.Errorf("%s of %.8q: %v, want errFormat", method, foreign, err)
			}
		}
		if v, err := s.client.Do(ctx, s.client.B().Get().Key(key).Build()).ToString(); err != nil || v != foreign {
			t.Errorf("the value is %q, %v; want it as it was", v, err)
		}
	}
}
