package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func request() exampletest.Request {
	return exampletest.Request{
		Path:   "/payments",
		Header: http.Header{"Authorization": {"Bearer secret"}},
		Body:   `{"amount":4200}`,
		Other:  `{"amount":1}`,
	}
}

// Seen to fail with safe taken out of the handler.
func TestOnce(t *testing.T) {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	b := new(bank)
	exampletest.Once(t, handler(guard, b, "secret"), request(), b.charges.Load)
}

// Seen to fail with the guard outside of authentication: any caller that sends the header then gets the replay.
func TestReplayIsAuthenticated(t *testing.T) {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	server := httptest.NewServer(handler(guard, new(bank), "secret"))
	defer server.Close()
	exampletest.Post(t, server.URL, "k", `{"amount":1}`, request())
	revoked := httptest.NewServer(handler(guard, new(bank), "another secret"))
	defer revoked.Close()
	if a := exampletest.Post(t, revoked.URL, "k", `{"amount":1}`, request()); a.Status != http.StatusUnauthorized {
		t.Errorf("a revoked token got %d %s, want 401", a.Status, a.Body)
	}
}

// A client that refreshes its token between two attempts is still the same caller. Seen to fail with ScopeCredential:
// the retry was charged again.
func TestRetryWithANewToken(t *testing.T) {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	b := new(bank)
	for _, token := range []string{"secret", "another secret"} {
		server := httptest.NewServer(handler(guard, b, token))
		defer server.Close()
		r := request()
		r.Header.Set("Authorization", "Bearer "+token)
		exampletest.Post(t, server.URL, "k", `{"amount":1}`, r)
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
		answers = append(answers, exampletest.Post(t, "http://"+listener.Addr().String(), "k", `{"amount":1}`, request()))
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(answers[0].Body, answers[1].Body) || !answers[1].Replayed() {
		t.Errorf("after the restart: %d %s, want a replay of %s", answers[1].Status, answers[1].Body, answers[0].Body)
	}
}
