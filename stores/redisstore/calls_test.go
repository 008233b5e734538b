package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
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
	s, ctx := openOn(t, c, Options{}), context.Background()
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

// A server that has forgotten the scripts gets them again; one that was restarted, or reads its files, is waited for.
// Seen to fail with scripts that the client must not send again (rueidis.NewLuaScript).
func TestCallsOutliveARestart(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	s := openOn(t, connect(t, r.Address()), Options{})
	claimAndComplete(t, s, "a")
	r.Command(t, "SCRIPT", "FLUSH")
	claimAndComplete(t, s, "b")
	r.Kill(t)
	done := make(chan error)
	go func() {
		c, err := s.Claim(context.Background(), params("c"))
		if err == nil && c.Verdict != retrysafe.Acquired {
			err = fmt.Errorf("the verdict is %v", c.Verdict)
		}
		done <- err
	}()
	r.Start(t)
	if err := <-done; err != nil {
		t.Errorf("a claim during a restart: %v", err)
	}
	for _, id := range []string{"a", "b"} {
		if c, err := s.Claim(context.Background(), params(id)); err != nil || c.Verdict != retrysafe.Done {
			t.Errorf("Claim of %s after the restart: %v, %v", id, c.Verdict, err)
		}
	}
}

// A server that does not answer ends a call at its deadline, or at Options.Timeout if it has none. Seen to fail with
// bounded returning the context as it is.
func TestCallsEnd(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	s := openOn(t, connect(t, r.Address()), Options{Timeout: 50 * time.Millisecond})
	r.Pause(t)
	defer r.Resume(t)
	if _, err := s.Claim(context.Background(), params("k")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Claim: %v, want context.DeadlineExceeded", err)
	}
}

// In a full server new keys are refused, what is there is answered, and what runs may end. Seen to fail with the flag
// allow-oom taken out of complete.lua.
func TestFullServer(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	s, ctx := openOn(t, connect(t, r.Address()), Options{}), context.Background()
	claimAndComplete(t, s, "done")
	running, err := s.Claim(ctx, params("running"))
	if err != nil {
		t.Fatal(err)
	}
	r.Command(t, "CONFIG", "SET", "maxmemory", "1")
	if _, err := s.Claim(ctx, params("new")); !errors.Is(err, retrysafe.ErrStoreFull) {
		t.Errorf("Claim of a new key: %v, want ErrStoreFull", err)
	}
	if c, err := s.Claim(ctx, params("done")); err != nil || c.Verdict != retrysafe.Done {
		t.Errorf("Claim of an ended key: %v, %v", c.Verdict, err)
	}
	err = errors.Join(
		s.Extend(ctx, running.Lease, time.Hour),
		s.Checkpoint(ctx, running.Lease, retrysafe.StepResult{Name: "a"}),
		s.Complete(ctx, running.Lease, retrysafe.Result{Body: make([]byte, 100_000)}, retrysafe.Retention{}))
	if err != nil {
		t.Errorf("the attempt that runs: %v", err)
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

// What another program has written under the prefix is an error, and is not overwritten.
func TestForeignValue(t *testing.T) {
	t.Parallel()
	s, ctx := openTest(t), context.Background()
	p := params("k")
	key := s.key(p.Key.Digest())
	for _, foreign := range []string{"hello", strings.Repeat("\x02", 200)} {
		if err := s.client.Do(ctx, s.client.B().Set().Key(key).Value(foreign).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if c, err := s.Claim(ctx, p); err == nil {
			t.Errorf("Claim: %v, want an error", c.Verdict)
		}
		if v, err := s.client.Do(ctx, s.client.B().Get().Key(key).Build()).ToString(); err != nil || v != foreign {
			t.Errorf("the value is %q, %v; want it as it was", v, err)
		}
	}
}
