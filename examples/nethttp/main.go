// Command nethttp is an HTTP API with only the standard library: one guarded route, the page that tells clients the
// rules, and a clean shutdown.
//
//	API_TOKEN=secret go run ./examples/nethttp
//	curl -i 127.0.0.1:8080/payments -H 'Authorization: Bearer secret' \
//	  -H 'Idempotency-Key: "order-17"' -d '{"amount":4200}'
//
// Send it again, also after a restart: the same answer, and no second charge. Change the amount: 422.
package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, listener, "payments.db", os.Getenv("API_TOKEN"))
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends. It closes the listener.
func run(ctx context.Context, listener net.Listener, path, token string) error {
	store, err := sqlitestore.Open(path, sqlitestore.Options{})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	server := &http.Server{Handler: handler(guard, new(bank), token), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	// In this order: no more requests, then no more work to record, then no more records.
	return errors.Join(err, server.Shutdown(ctx), guard.Shutdown(ctx), store.Close())
}

func handler(guard *retrysafe.Guard, b *bank, token string) http.Handler {
	options := httpsafe.Options{
		Required:  true,
		PolicyURL: "http://127.0.0.1:8080/.well-known/idempotency-policy", // the public URL
	}
	safe := httpsafe.Middleware(guard, callerOf, options)
	mux := http.NewServeMux()
	// The guard is behind authentication, so that replays are authorised like any request.
	mux.Handle("POST /payments", authenticate(token, safe(http.HandlerFunc(b.pay))))
	mux.Handle("GET /.well-known/idempotency-policy", httpsafe.PolicyPage(
		options.Rules("POST /payments", guard.Policy()),
	))
	return mux
}
