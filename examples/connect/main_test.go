package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/connectsafe"
	pb "github.com/retrysafe/retrysafe/examples/internal/paymentspb"
	"github.com/retrysafe/retrysafe/examples/internal/paymentspb/paymentspbconnect"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Seen to fail with the interceptor taken out of handler.
func TestOnce(t *testing.T) {
	b := new(bank)
	server := httptest.NewServer(handler(retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{}), b))
	defer server.Close()
	payments := paymentspbconnect.NewPaymentsClient(server.Client(), server.URL,
		connect.WithInterceptors(connectsafe.NewClientInterceptor(rpcsafe.ClientOptions{})))
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if _, err := pay(t.Context(), payments, 4200); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := pay(t.Context(), payments, 1); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("another amount for the same order: %v", err)
	}
	if _, err := payments.Pay(t.Context(),
		connect.NewRequest(&pb.PayRequest{Amount: 1})); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("a stranger: %v", err)
	}
	if n := b.charges.Load(); n != 1 {
		t.Errorf("%d charges", n)
	}
}

// pay pays order 17.
func pay(ctx context.Context, payments paymentspbconnect.PaymentsClient, amount int64) (*pb.Payment, error) {
	request := connect.NewRequest(&pb.PayRequest{Amount: amount})
	request.Header().Set("User", "alice")
	response, err := payments.Pay(client.WithKey(ctx, "order-17"), request)
	if err != nil {
		return nil, err
	}
	if response.Msg.Amount != amount {
		return nil, errors.New("another payment")
	}
	return response.Msg, nil
}
