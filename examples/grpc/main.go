// Command grpc is a payments service that is safe to retry, and a client that retries. Two calls with one intent make
// one charge.
//
//	go run ./examples/grpc serve
//	go run ./examples/grpc pay order-17 4200
//
// Pay again, also after a restart of the server: the same charge. Pay another amount for the same order:
// FAILED_PRECONDITION.
//
// To test it with the probe:
//
//	retrysafe probe init --grpc grpc://127.0.0.1:8080 --metadata 'user: alice' --second-caller
//	PROBE_CREDENTIAL_A=alice PROBE_CREDENTIAL_B=bob retrysafe probe
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	pb "github.com/retrysafe/retrysafe/examples/internal/paymentspb"
	"github.com/retrysafe/retrysafe/grpcsafe"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

const address = "127.0.0.1:8080"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := errors.New("usage: grpc serve | grpc pay ORDER CENTS")
	switch {
	case len(os.Args) == 2 && os.Args[1] == "serve":
		err = serve(ctx)
	case len(os.Args) == 4 && os.Args[1] == "pay":
		err = payOnce(ctx, os.Args[2], os.Args[3])
	}
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return run(ctx, listener, "payments.db", new(bank))
}

// run serves until ctx ends. It closes the listener.
func run(ctx context.Context, listener net.Listener, path string, b *bank) error {
	store, err := sqlitestore.Open(path, sqlitestore.Options{})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	server := newServer(guard, b)
	stopped := context.AfterFunc(ctx, server.GracefulStop) // accepts no more calls
	err = server.Serve(listener)
	stopped()
	return errors.Join(err, guard.Shutdown(context.Background()), store.Close())
}

// newServer puts the guard behind authentication, so that replays are authorised like any call.
func newServer(guard *retrysafe.Guard, b *bank) *grpc.Server {
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(
		authenticate,
		grpcsafe.UnaryServerInterceptor(guard, callerOf, rpcsafe.Options{
			KeyField: "request_id", // or the metadata idempotency-key
			Required: []string{"payments.v1.Payments/*"},
		}),
	))
	pb.RegisterPaymentsServer(server, b)
	reflection.Register(server) // for retrysafe probe
	return server
}

// bank counts the charges.
type bank struct {
	pb.UnimplementedPaymentsServer
	charges atomic.Int64
}

// Pay runs once for each key, however often the client retries.
func (b *bank) Pay(_ context.Context, in *pb.PayRequest) (*pb.Payment, error) {
	if in.Amount <= 0 {
		return nil, status.Error(codes.InvalidArgument, "the amount must be a positive number of cents")
	}
	b.charges.Add(1)
	return &pb.Payment{Charge: rand.Text(), Amount: in.Amount}, nil
}

type userKey struct{}

// authenticate accepts callers that name themselves; a real service verifies a token or a certificate.
func authenticate(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	users := metadata.ValueFromIncomingContext(ctx, "user")
	if len(users) != 1 {
		return nil, status.Error(codes.Unauthenticated, "the metadata user is missing")
	}
	return handler(context.WithValue(ctx, userKey{}, users[0]), in)
}

// callerOf returns the scope of keys: the caller that authenticate has accepted.
func callerOf(ctx context.Context) (string, error) {
	user, ok := ctx.Value(userKey{}).(string)
	if !ok {
		return "", errors.New("the call was not authenticated")
	}
	return user, nil
}

// dial returns a client that retries each call under one key.
func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(grpcsafe.UnaryClientInterceptor(rpcsafe.ClientOptions{})))
}

func payOnce(ctx context.Context, order, cents string) error {
	amount, err := strconv.ParseInt(cents, 10, 64)
	if err != nil {
		return err
	}
	conn, err := dial(address)
	if err != nil {
		return err
	}
	payment, err := pay(ctx, pb.NewPaymentsClient(conn), order, amount)
	if err == nil {
		fmt.Println(payment)
	}
	return errors.Join(err, conn.Close())
}

// pay pays an order. The key is derived from the order's number, so that another process that pays the same order
// does not charge again.
func pay(ctx context.Context, payments pb.PaymentsClient, order string, amount int64) (*pb.Payment, error) {
	intent := retrysafe.Intent{Operation: "pay", Params: []string{order}}
	ctx = metadata.AppendToOutgoingContext(client.WithIntent(ctx, intent), "user", "alice")
	payment, err := payments.Pay(ctx, &pb.PayRequest{Amount: amount})
	if errors.Is(err, client.ErrOutcomeUnknown) {
		return nil, fmt.Errorf("check whether order %s was charged before you pay again: %w", order, err)
	}
	return payment, err
}
