package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func request() exampletest.Request {
	return exampletest.Request{
		Path:   "/payments",
		Header: http.Header{"Authorization": {"Bearer alice"}},
		Body:   `{"amount":4200}`,
		Other:  `{"amount":1}`,
	}
}

// unreachable is the transport to the bank. While down is set, it fails before anything is sent.
type unreachable struct{ down atomic.Bool }

func (u *unreachable) RoundTrip(r *http.Request) (*http.Response, error) {
	if u.down.Load() {
		return nil, errors.New("no route to the bank")
	}
	return http.DefaultTransport.RoundTrip(r)
}

// open returns the shop, the bank, and the transport between them.
func open(t *testing.T) (http.Handler, *bank, *unreachable) {
	bank, way := openBank(), new(unreachable)
	t.Cleanup(bank.server.Close)
	client := bank.client()
	client.http.Transport = way
	return handler(retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{}), client), bank, way
}

// Seen to fail with queryBank finding nothing (the bank refuses the reference, and the outcome stays unknown).
func TestRetryAsksTheBank(t *testing.T) {
	h, bank, _ := open(t)
	server := httptest.NewServer(h)
	defer server.Close()
	q := request()
	if a := exampletest.Post(t, server.URL, "k", q.Body, q); a.Status != http.StatusBadGateway {
		t.Errorf("with the bank gone: %d %s, want 502", a.Status, a.Body)
	}
	second := exampletest.Post(t, server.URL, "k", q.Body, q)
	if second.Status != http.StatusCreated || second.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the retry got %d %s %v", second.Status, second.Body, second.Header)
	}
	third := exampletest.Post(t, server.URL, "k", q.Body, q)
	if string(third.Body) != string(second.Body) || !third.Replayed() {
		t.Errorf("the third got %d %s, want a replay of %s", third.Status, third.Body, second.Body)
	}
	if n := bank.made(); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}

// Seen to fail with the bank's 404 treated as an error.
func TestChargeThatNeverReachedTheBankIsMade(t *testing.T) {
	h, bank, way := open(t)
	server := httptest.NewServer(h)
	defer server.Close()
	q := request()
	exampletest.Post(t, server.URL, "the bank hangs up", q.Body, q)
	before := bank.made()
	way.down.Store(true)
	if a := exampletest.Post(t, server.URL, "k", q.Body, q); a.Status != http.StatusBadGateway {
		t.Errorf("with the bank away: %d %s, want 502", a.Status, a.Body)
	}
	way.down.Store(false)
	if a := exampletest.Post(t, server.URL, "k", q.Body, q); a.Status != http.StatusCreated {
		t.Errorf("the retry got %d %s, want to pay", a.Status, a.Body)
	}
	if n := bank.made() - before; n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}

// Seen to fail with safe taken out of the handler.
func TestOnce(t *testing.T) {
	h, bank, _ := open(t)
	server := httptest.NewServer(h)
	defer server.Close()
	exampletest.Post(t, server.URL, "the bank hangs up", `{"amount":1}`, request())
	exampletest.Once(t, h, request(), bank.made)
}
