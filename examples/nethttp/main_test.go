package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
)

var payment = exampletest.Payment("Authorization", "Bearer secret")

// Seen to fail with safe taken out of the handler.
func TestOnce(t *testing.T) {
	b := new(bank)
	exampletest.Serve(t, handler(exampletest.NewGuard(), b, "secret"), payment).Once(b.charges.Load)
}

// Seen to fail with the guard outside of authentication: any caller that sends the header then gets the replay.
func TestReplayIsAuthenticated(t *testing.T) {
	guard := exampletest.NewGuard()
	exampletest.Serve(t, handler(guard, new(bank), "secret"), payment).Post("k", payment.Body)
	revoked := exampletest.Serve(t, handler(guard, new(bank), "another secret"), payment)
	if a := revoked.Post("k", payment.Body); a.Status != http.StatusUnauthorized {
		t.Errorf("a revoked token got %d %s, want 401", a.Status, a.Body)
	}
}

// A client that refreshes its token between two attempts is still the same caller. Seen to fail with ScopeCredential:
// the retry was charged again.
func TestRetryWithANewToken(t *testing.T) {
	guard := exampletest.NewGuard()
	b := new(bank)
	for _, token := range []string{"secret", "another secret"} {
		q := exampletest.Payment("Authorization", "Bearer "+token)
		exampletest.Serve(t, handler(guard, b, token), q).Post("k", q.Body)
	}
	if n := b.charges.Load(); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}

// Seen to fail with a store in memory, and (the second run is refused) with store.Close taken out.
func TestReplayAfterRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "payments.db")
	var answers []exampletest.Answer
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- run(ctx, listener, path, "secret") }()
		answers = append(answers, exampletest.At(t, "http://"+listener.Addr().String(), payment).Post("k", payment.Body))
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(answers[0].Body, answers[1].Body) || !answers[1].Replayed() {
		t.Errorf("after the restart: %d %s, want a replay of %s", answers[1].Status, answers[1].Body, answers[0].Body)
	}
}
