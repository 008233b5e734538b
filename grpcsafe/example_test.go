package grpcsafe_test

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/grpcsafe"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func ExampleUnaryServerInterceptor() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	options := rpcsafe.Options{
		Required: []string{"shop.v1.Payments/*"},
		KeyField: "request_id", // AIP-155; the metadata idempotency-key works too
		Tags:     map[string]rpcsafe.TagPlace{"order": {Field: "order.id"}, "shop": {Metadata: "x-shop"}},
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(
			authenticate, // outside: a replay is authenticated like any call
			grpcsafe.UnaryServerInterceptor(guard, grpcsafe.ScopeCredential(), options),
		),
		grpc.StreamInterceptor(grpcsafe.StreamServerInterceptor(options)),
	)
	defer server.Stop()
	// Register the services here.
	if err := grpcsafe.CheckServer(options, server.GetServiceInfo()); err != nil {
		fmt.Println(err) // a method that the server does not have would guard nothing
	}
}

func authenticate(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(ctx, request)
}

func ExampleUnaryClientInterceptor() {
	conn, err := grpc.NewClient("dns:///payments.example:443",
		grpc.WithTransportCredentials(credentials.NewTLS(nil)),
		grpc.WithUnaryInterceptor(grpcsafe.UnaryClientInterceptor(rpcsafe.ClientOptions{Methods: []string{"shop.v1.Payments/*"}})),
	)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	intent := retrysafe.Intent{Operation: "charge", Params: []string{"order-17"}}
	ctx := client.WithIntent(context.Background(), intent) // without it: a new key for each call
	_ = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer secret")
}
