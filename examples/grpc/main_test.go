package main

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/retrysafe/retrysafe/examples/internal/paymentspb"
)

// start serves until stop is called, or the test ends.
func start(t *testing.T, path string, b *bank) (client pb.PaymentsClient, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, listener, path, b) }()
	conn, err := dial(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return pb.NewPaymentsClient(conn), stop
}

// Seen to fail with the interceptor taken out of newServer.
func TestOnce(t *testing.T) {
	path, b := filepath.Join(t.TempDir(), "payments.db"), new(bank)
	client, stop := start(t, path, b)
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if _, err := pay(t.Context(), client, "order-17", 4200); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	first, err := pay(t.Context(), client, "order-17", 4200)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pay(t.Context(), client, "order-17", 1); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("another amount for the same order: %v", err)
	}
	stop()
	client, _ = start(t, path, b)
	again, err := pay(t.Context(), client, "order-17", 4200)
	if err != nil || !proto.Equal(first, again) {
		t.Errorf("after the restart: %v, %v; want %v", again, err, first)
	}
	if n := b.charges.Load(); n != 1 {
		t.Errorf("%d charges", n)
	}
}
