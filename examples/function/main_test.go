package main

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Seen to fail with the transfer called outside of Do.
func TestOnce(t *testing.T) {
	guard := newGuard(memstore.New(memstore.Options{}))
	var transfers atomic.Int64
	transfer := func(context.Context, string, int64) (string, error) {
		transfers.Add(1)
		return rand.Text(), nil
	}
	pay := func(cents int64) (receipt, error) {
		return paySalaries(t.Context(), guard, transfer, "2026-11", cents)
	}
	start, done := make(chan struct{}), sync.WaitGroup{}
	for range 20 {
		done.Go(func() {
			<-start
			if _, err := pay(420000); err != nil && !errors.Is(err, retrysafe.ErrInFlight) {
				t.Error(err)
			}
		})
	}
	close(start)
	done.Wait()
	first, err := pay(420000)
	if err != nil || first.Payment == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := pay(420000); err != nil || again != first {
		t.Errorf("again: %+v, %v; want %+v", again, err, first)
	}
	if n := transfers.Load(); n != 1 {
		t.Errorf("%d transfers, want 1", n)
	}
}

// Seen to fail with the amount taken out of the fingerprint.
func TestAnotherAmountIsRefused(t *testing.T) {
	guard := newGuard(memstore.New(memstore.Options{}))
	if _, err := paySalaries(t.Context(), guard, printTransfer, "2026-11", 420000); err != nil {
		t.Fatal(err)
	}
	_, err := paySalaries(t.Context(), guard, printTransfer, "2026-11", 1)
	if !errors.Is(err, retrysafe.ErrMismatch) {
		t.Errorf("got %v, want ErrMismatch", err)
	}
}

// Seen to fail with Unknown taken out: then the failure is final. With Retryable in its place there are two transfers.
func TestLostAnswerIsNotTriedAgain(t *testing.T) {
	guard := newGuard(memstore.New(memstore.Options{}))
	transfers := 0
	transfer := func(context.Context, string, int64) (string, error) {
		transfers++
		return "", errors.New("connection reset")
	}
	for range 2 {
		_, err := paySalaries(t.Context(), guard, transfer, "2026-11", 420000)
		if !errors.Is(err, retrysafe.ErrAbandoned) {
			t.Errorf("got %v, want ErrAbandoned", err)
		}
	}
	if transfers != 1 {
		t.Errorf("%d transfers, want 1", transfers)
	}
}
