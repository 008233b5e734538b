package redisstore

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// A claim whose connection breaks may arrive after its second copy, whose attempt has released the key, and take the key
// for nobody. The Guard is told that the first answer was lost, and undoes what arrives late: the next caller runs. Seen
// to fail with Claim.Doubted left unset, and with claims that the client sends again ("NewLuaScriptRetryable"): the key
// ended as abandoned, although nothing was running.
func TestClaimThatArrivesLate(t *testing.T) {
	t.Parallel()
	r := startRelay(t, shared.Get(t).Address())
	s := openOn(t, connect(t, r.address), Options{})
	claimAndComplete(t, s, "the server has the scripts now")
	guard := retrysafe.New(s, retrysafe.Options{Policy: retrysafe.Policy{Lease: 8 * time.Second, Timeout: time.Second}})
	defer guard.Shutdown(t.Context())
	r.hold()
	p := params("k")
	_, err := guard.Do(t.Context(), retrysafe.Request{Key: p.Key, Fingerprint: p.Fingerprint},
		func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
			return retrysafe.Result{}, retrysafe.Retryable(errors.New("not now"))
		})
	if err == nil {
		t.Fatal("the work has not failed")
	}
	if answer := r.deliver(t); !bytes.HasPrefix(answer, []byte(":")) && !bytes.HasPrefix(answer, []byte("*")) {
		t.Fatalf("the claim that arrived late was answered %q", answer)
	}
	untilAcquired(t, s)
}

// A claim whose connection breaks, and whose second copy finds a full server, may arrive late, when there is room
// again. The Guard undoes it. Seen to fail without Doubted beside the error: the key ended as abandoned.
func TestClaimThatArrivesLateAtAFullServer(t *testing.T) {
	t.Parallel()
	server := startSet(t, nil)
	r := startRelay(t, server.Address())
	s := openOn(t, connect(t, r.address), Options{})
	claimAndComplete(t, s, "the server has the scripts now")
	guard := retrysafe.New(s, retrysafe.Options{Policy: retrysafe.Policy{Lease: 8 * time.Second, Timeout: time.Second}})
	defer guard.Shutdown(t.Context())
	server.Command(t, "CONFIG", "SET", "maxmemory", "1")
	r.hold()
	p := params("k")
	_, err := guard.Do(t.Context(), retrysafe.Request{Key: p.Key, Fingerprint: p.Fingerprint},
		func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) { return retrysafe.Result{}, nil })
	if !errors.Is(err, retrysafe.ErrStoreFull) {
		t.Fatalf("got %v, want ErrStoreFull", err)
	}
	server.Command(t, "CONFIG", "SET", "maxmemory", "0")
	r.deliver(t)
	untilAcquired(t, s)
}

// untilAcquired claims the key k until no attempt has it.
func untilAcquired(t *testing.T, s *Store) {
	t.Helper()
	for {
		c, err := s.Claim(t.Context(), params("k"))
		switch {
		case err != nil:
			t.Fatal(err)
		case c.Verdict == retrysafe.Acquired:
			return
		case c.Verdict != retrysafe.InFlight:
			t.Fatalf("the key is %v", c.Verdict)
		}
	}
}

// relay passes connections on to a server. It can keep what one of them has sent, break that connection, and deliver
// what it has kept later.
type relay struct {
	server, address string

	mu      sync.Mutex
	holding bool
	kept    []byte
}

func startRelay(t *testing.T, server string) *relay {
	t.Helper()
	r := &relay{server: server}
	r.address = testkit.StartRelay(t, server, func() (sent, answered func(b []byte) bool) {
		return func(b []byte) bool { return !r.keep(b) }, func([]byte) bool { return true }
	})
	return r
}

// hold keeps the next call.
func (r *relay) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holding = true
}

// keep reports whether this call is kept.
func (r *relay) keep(sent []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.holding || !bytes.Contains(sent, []byte("EVALSHA")) {
		return false
	}
	r.holding, r.kept = false, bytes.Clone(sent)
	return true
}

// deliver sends what was kept, and returns the server's answer.
func (r *relay) deliver(t *testing.T) []byte {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil {
		t.Fatal("no call was kept")
	}
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := server.Write(r.kept); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1<<10)
	n, err := server.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	return answer[:n]
}
