package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/outbox"
)

// One event, one payment, although it came twelve times, before anything was delivered, and the first delivery failed
// after the booking. Seen to fail with the payment booked outside of the transaction: two payments.
func TestOneEventOnePayment(t *testing.T) {
	events := make(chan outbox.Event, 1000)
	s, err := open(filepath.Join(t.TempDir(), "webhooks.db"), inbox.Options{
		FirstDelay: time.Millisecond, Idle: 10 * time.Millisecond,
		Observer: outbox.ObserverFunc(func(_ context.Context, e outbox.Event) { events <- e }),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	server := httptest.NewServer(s.handler())
	defer server.Close()

	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			res, err := http.Post(server.URL+"/webhooks", "application/json", strings.NewReader(`{"id":"evt_1","amount":4200}`))
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
			if res.StatusCode != http.StatusAccepted || !strings.HasPrefix(res.Header.Get("Location"), "/status/") {
				t.Errorf("got %d, Location %q; want 202 and the status", res.StatusCode, res.Header.Get("Location"))
			}
		})
	}
	all.Wait()

	ctx, stop := context.WithCancel(t.Context())
	delivered := make(chan error)
	go func() { delivered <- s.deliver(ctx) }()
	failed := 0
	for e := range events {
		if e.Kind == outbox.MessageFailed {
			failed++
		}
		if e.Kind == outbox.MessageSent || e.Kind == outbox.MessageDead {
			break
		}
	}
	stop()
	if err := <-delivered; err != nil {
		t.Error(err)
	}
	var payments int
	if err := s.db.QueryRow("SELECT count(*) FROM payments").Scan(&payments); err != nil {
		t.Fatal(err)
	}
	if payments != 1 || failed != 1 {
		t.Errorf("%d payments after %d failed deliveries, want 1 after 1", payments, failed)
	}
}
