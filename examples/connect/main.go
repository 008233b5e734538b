// Command connect is a payments service that is safe to retry, over Connect, gRPC and gRPC-Web, so that curl can call
// it.
//
//	go run ./examples/connect
//	curl -i 127.0.0.1:8080/payments.v1.Payments/Pay -H 'User: alice' -H 'Content-Type: application/json' \
//	  -H 'Idempotency-Key: "order-17"' -d '{"amount": 4200}'
//
// Send it again: the same charge, with Idempotent-Replayed: true. Change the amount: 400, failed_precondition. Leave
// the key out: 400, too. The client of the example grpc can call this server as well: go run ./examples/grpc pay
// order-18 4200.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/connectsafe"
	pb "github.com/retrysafe/retrysafe/examples/internal/paymentspb"
	"github.com/retrysafe/retrysafe/examples/internal/paymentspb/paymentspbconnect"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run serves until it fails; the example nethttp shows a clean shutdown.
func run() error {
	store, err := sqlitestore.Open("payments.db", sqlitestore.Options{})
	if err != nil {
		return err
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // for gRPC
	server := &http.Server{
		Addr: "127.0.0.1:8080", Handler: handler(guard, new(bank)), Protocols: protocols,
		ReadHeaderTimeout: 10 * time.Second,
	}
	return errors.Join(server.ListenAndServe(), guard.Shutdown(context.Background()), store.Close())
}

// handler puts the guard behind authentication, so that replays are authorised like any request.
func handler(guard *retrysafe.Guard, b *bank) http.Handler {
	path, payments := paymentspbconnect.NewPaymentsHandler(b, connect.WithInterceptors(
		connect.UnaryInterceptorFunc(authenticate),
		connectsafe.NewInterceptor(guard, connectsafe.ScopeHeader("User"), rpcsafe.Options{
			KeyField: "request_id", // or the header Idempotency-Key
			Required: []string{"payments.v1.Payments/*"},
		}),
	))
	mux := http.NewServeMux()
	mux.Handle(path, connectsafe.TrailersOnly(payments)) // so that gRPC's own retries work, too
	return mux
}

// bank counts the charges.
type bank struct{ charges atomic.Int64 }

// Pay runs once for each key, however often the client retries.
func (b *bank) Pay(_ context.Context, in *connect.Request[pb.PayRequest]) (*connect.Response[pb.Payment], error) {
	if in.Msg.Amount <= 0 {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the amount must be a positive number of cents"))
	}
	b.charges.Add(1)
	return connect.NewResponse(&pb.Payment{Charge: rand.Text(), Amount: in.Msg.Amount}), nil
}

// authenticate accepts callers that name themselves; a real service verifies a token.
func authenticate(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		if request.Header().Get("User") == "" {
			return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("the header User is missing"))
		}
		return next(ctx, request)
	}
}
