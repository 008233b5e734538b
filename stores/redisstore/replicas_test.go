package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// startReplica starts a replica and returns once it has what its master has.
func startReplica(t *testing.T, master *servers.Redis) *servers.Redis {
	t.Helper()
	host, port, _ := strings.Cut(master.Address(), ":")
	r := startSet(t, map[string]string{"replicaof": host + " " + port})
	deadline := time.Now().Add(2 * time.Minute)
	for !strings.Contains(r.Command(t, "INFO", "replication"), "master_link_status:up") {
		if time.Now().After(deadline) {
			t.Fatal("the replica does not get its master's data")
		}
	}
	return r
}

// What was written and not confirmed by a replica is an error, and repeating the call waits again. Seen to fail with
// the number of confirmations ignored, and with WAIT left out after a claim of the own key.
func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	master := startSet(t, nil)
	replica := startReplica(t, master)
	client := connect(t, master.Address())
	s := openOn(t, client, Options{WaitReplicas: 1, WaitTimeout: 2 * time.Minute})
	hasty := openOn(t, client, Options{WaitReplicas: 1, WaitTimeout: 50 * time.Millisecond, Prefix: s.options.Prefix})
	ctx := context.Background()
	p := params("k")
	client.Do(ctx, client.B().ScriptFlush().Build()) // the first call finds no script
	c, err := s.Claim(ctx, p)
	if err != nil || c.Verdict != retrysafe.Acquired {
		t.Fatalf("Claim: %v, %v", c.Verdict, err)
	}
	if v := replica.Command(t, "EXISTS", s.key(p.Key.Digest())); v != "1" {
		t.Error("the claim was acknowledged before the replica had it")
	}
	replica.Pause(t)
	for range 2 {
		err := hasty.Complete(ctx, c.Lease, retrysafe.Result{Code: 201}, retrysafe.Retention{})
		if !errors.Is(err, ErrNotReplicated) {
			t.Errorf("Complete: %v, want ErrNotReplicated", err)
		}
		if _, err := hasty.Claim(ctx, params("other")); !errors.Is(err, ErrNotReplicated) {
			t.Errorf("Claim: %v, want ErrNotReplicated", err)
		}
	}
	// An answer of the master alone is not given either: it could be lost, and the work run again.
	if _, err := hasty.Claim(ctx, params("k")); !errors.Is(err, ErrNotReplicated) {
		t.Errorf("Claim of an ended key: %v, want ErrNotReplicated", err)
	}
	replica.Resume(t)
	if err := s.Complete(ctx, c.Lease, retrysafe.Result{Code: 500}, retrysafe.Retention{}); err != nil {
		t.Fatalf("Complete again: %v", err)
	}
	done, err := s.Claim(ctx, params("k"))
	if err != nil || done.Verdict != retrysafe.Done || done.Record.Result.Code != 201 {
		t.Errorf("Claim: %v with code %d, %v; want the first result", done.Verdict, done.Record.Result.Code, err)
	}
}

// A call that waits for replicas survives that its connections break, as others do. Seen to fail with again returning
// false.
func TestWaitReplicasAfterRestart(t *testing.T) {
	t.Parallel()
	master := startSet(t, nil)
	s := openOn(t, connect(t, master.Address()), Options{WaitReplicas: 1, WaitTimeout: 2 * time.Minute})
	startReplica(t, master)
	claimAndComplete(t, s, "before")
	master.Kill(t)
	master.Start(t)
	claimAndComplete(t, s, "after")
}

// claimAndComplete ends a key.
func claimAndComplete(t testing.TB, s *Store, id string) retrysafe.Lease {
	t.Helper()
	c, err := s.Claim(context.Background(), params(id))
	if err != nil || c.Verdict != retrysafe.Acquired {
		t.Fatalf("Claim: %v, %v", c.Verdict, err)
	}
	if err := s.Complete(context.Background(), c.Lease, retrysafe.Result{}, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	return c.Lease
}
