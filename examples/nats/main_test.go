package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/examples/internal/till"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

func TestOneChargeForEachOrder(t *testing.T) {
	url := servers.StartNATS(t, servers.NATSOptions{}).URL()
	shop, err := till.Open(filepath.Join(t.TempDir(), "till.db"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, url, shop) }()

	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range []string{`{"order":"o-1","cents":1700}`, `{"order":"o-1","cents":1700}`, `{"order":"o-2"}`} {
		// Publishing fails until the program has created the stream.
		if _, err := js.Publish(ctx, "orders.new", []byte(order), jetstream.WithRetryAttempts(100)); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := js.Stream(ctx, "orders")
	if err != nil {
		t.Fatal(err)
	}
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		_, err := stream.GetLastMsgForSubject(ctx, "orders.dead")
		if _, charges, failed := shop.Charges(ctx); failed != nil || err == nil && charges > 0 {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if orders, charges, err := shop.Charges(t.Context()); orders != 1 || charges != 1 || err != nil {
		t.Errorf("%d charges for %d orders, %v", charges, orders, err)
	}
	if err := shop.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
