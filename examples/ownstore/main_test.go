package main

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// aging is a sealed store in which the tests let time pass.
type aging struct {
	*sealed
	passed *atomic.Int64
}

func openAging(t *testing.T) aging {
	t.Helper()
	start, passed := time.Now(), new(atomic.Int64)
	clock := func() time.Duration { return time.Since(start) + time.Duration(passed.Load()) }
	s, err := newSealed(memstore.New(memstore.Options{Clock: clock}), bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return aging{s, passed}
}

// Seen to fail with Claim, Inspect or Checkpoint passing through the data of the inner store.
func TestContract(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store { return openAging(t) },
		Age:  func(_ *testing.T, s retrysafe.Store, d time.Duration) { s.(aging).passed.Add(int64(d)) },
	})
}

// complete saves a result and a step in s under a new key.
func complete(t *testing.T, s retrysafe.Store) retrysafe.Key {
	t.Helper()
	k := retrysafe.Key{Scope: "alice", ID: "order-17"}
	c, err := s.Claim(t.Context(), retrysafe.ClaimParams{Key: k, Owner: retrysafe.NewOwner(), Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(t.Context(), c.Lease,
		retrysafe.StepResult{Name: "charge", Data: []byte("secret step")}); err != nil {
		t.Fatal(err)
	}
	r := retrysafe.Result{Meta: []byte("secret meta"), Body: []byte("secret body")}
	if err := s.Complete(t.Context(), c.Lease, r, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	return k
}

// Seen to fail with Meta, with Body, and with steps stored unencrypted.
func TestStoredAnswersAreUnreadable(t *testing.T) {
	s := openAging(t)
	records, err := s.inner.Inspect(t.Context(), complete(t, s).Digest())
	if err != nil || len(records) != 1 || len(records[0].Steps) != 1 {
		t.Fatalf("%v, %v", records, err)
	}
	r := records[0]
	for _, stored := range [][]byte{r.Result.Meta, r.Result.Body, r.Steps[0].Data} {
		if len(stored) == 0 || bytes.Contains(stored, []byte("secret")) {
			t.Errorf("stored: %q", stored)
		}
	}
}

// Seen to fail with the field taken out of the authenticated data.
func TestAnswersOpenOnlyInTheirPlace(t *testing.T) {
	s := openAging(t)
	k := retrysafe.Key{Scope: "alice", ID: "order-17"}
	b := s.seal([]byte("paid"), k, "body")
	if got, err := s.unseal(b, k, "body"); err != nil || string(got) != "paid" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := s.unseal(b, k, "meta"); err == nil {
		t.Error("a body was taken for a meta")
	}
	if _, err := s.unseal(b, retrysafe.Key{Scope: "bob", ID: "order-17"}, "body"); err == nil {
		t.Error("Alice's answer was taken for Bob's")
	}
}

// Seen to fail with safe taken out of the handler.
func TestOnce(t *testing.T) {
	b := new(bank)
	guard := retrysafe.New(openAging(t), retrysafe.Options{})
	q := exampletest.Payment("Authorization", "Bearer alice")
	exampletest.Serve(t, handler(guard, b), q).Once(b.charges.Load)
}
