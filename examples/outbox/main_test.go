package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/examples/internal/faults"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/outbox/webhook"
)

// One order, one parcel, although the order came twelve times and the warehouse hung up on the first webhook. Seen to
// fail with another key for each delivery: two parcels.
func TestOneOrderOneParcel(t *testing.T) {
	secrets, err := webhook.ParseSecrets(webhook.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	warehouse, err := openWarehouse(filepath.Join(t.TempDir(), "warehouse.db"), secrets)
	if err != nil {
		t.Fatal(err)
	}
	defer warehouse.close()
	hooks := httptest.NewServer(faults.HangUpOnce(warehouse.handler()))
	defer hooks.Close()

	events := make(chan outbox.Event, 1000)
	shop, err := openShop(filepath.Join(t.TempDir(), "shop.db"), hooks.URL+"/hooks", secrets, outbox.RelayOptions{
		FirstDelay: time.Millisecond, Idle: 10 * time.Millisecond,
		Observer: outbox.ObserverFunc(func(_ context.Context, e outbox.Event) { events <- e }),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer shop.close()
	ctx, stop := context.WithCancel(t.Context())
	relayed := make(chan error)
	go func() { relayed <- shop.relay.Run(ctx) }()

	count := func(table string) (n int64) {
		db := shop.db
		if table == "parcels" {
			db = warehouse.db
		}
		if err := db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	exampletest.Serve(t, shop.handler(), exampletest.Request{
		Path:   "/orders",
		Header: http.Header{"Authorization": {"Bearer alice"}},
		Body:   `{"book":"Emma"}`,
		Other:  `{"book":"Persuasion"}`,
	}).Once(func() int64 { return count("orders") })

	failed := 0
	for e := range events {
		if e.Kind == outbox.MessageFailed {
			failed++
		}
		if e.Kind == outbox.MessageSent {
			break
		}
	}
	stop()
	<-relayed
	if n := count("parcels"); n != 1 || failed != 1 {
		t.Errorf("%d parcels after %d failed deliveries, want 1 after 1", n, failed)
	}
	if s, err := shop.box.Stats(t.Context()); err != nil || s != (outbox.Stats{}) {
		t.Errorf("left in the outbox: %+v, %v", s, err)
	}
}
