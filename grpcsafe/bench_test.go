package grpcsafe_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/grpcsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// What the interceptor costs over loopback, with the store in memory: each iteration makes one call of a bare server
// and one of a guarded one, so that both see the same machine. "x-bare" is how much longer the guarded call takes,
// "added-ns/op" how much that is.
func BenchmarkUnary(b *testing.B) {
	handler := func(_ context.Context, in *shoppb.CreateRequest) (proto.Message, error) {
		return &shoppb.Thing{ThingId: "thing-1", Amount: in.Amount}, nil
	}
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	guarded := grpc.UnaryInterceptor(grpcsafe.UnaryServerInterceptor(guard, rpcsafe.ScopeNone(), rpcsafe.Options{}))
	bare := connect(b, serve(b, handler, grpc.UnaryInterceptor(pass)))
	safe := connect(b, serve(b, handler, guarded))
	n := 0
	for _, c := range []struct {
		name string
		key  func() string // empty: none
	}{
		{"no key", func() string { return "" }},
		{"fresh key", func() string { n++; return strconv.Itoa(n) }},
		{"replay", func() string { return "same" }},
	} {
		b.Run(c.name, func(b *testing.B) {
			var withoutGuard, withGuard time.Duration
			for b.Loop() {
				key := c.key()
				withoutGuard += timed(b, bare, key)
				withGuard += timed(b, safe, key)
			}
			b.ReportMetric(float64(withGuard)/float64(withoutGuard), "x-bare")
			b.ReportMetric(float64(withGuard-withoutGuard)/float64(b.N), "added-ns/op")
		})
	}
}

func pass(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(ctx, in)
}

// timed makes a call, and returns how long it took.
func timed(b *testing.B, conn *grpc.ClientConn, key string) time.Duration {
	ctx := b.Context()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
	}
	began := time.Now()
	if err := conn.Invoke(ctx, create, &shoppb.CreateRequest{Amount: 17}, new(shoppb.Thing)); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// BenchmarkInterceptor is the same without a network: what the interceptor itself takes.
func BenchmarkInterceptor(b *testing.B) {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	intercept := grpcsafe.UnaryServerInterceptor(guard, rpcsafe.ScopeNone(), rpcsafe.Options{})
	response := &shoppb.Thing{ThingId: "thing-1"}
	handler := func(context.Context, any) (any, error) { return response, nil }
	for name, key := range map[string]func(i int) string{
		"fresh-key": strconv.Itoa,
		"replay":    func(int) string { return "same" },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ctx := metadata.NewIncomingContext(grpc.NewContextWithServerTransportStream(b.Context(), noStream{}),
					metadata.Pairs("idempotency-key", name+key(i)))
				if _, err := intercept(ctx, &shoppb.CreateRequest{Amount: 17}, info(create), handler); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// noStream takes header and trailer, and sends nothing.
type noStream struct{}

func (noStream) Method() string               { return create }
func (noStream) SetHeader(metadata.MD) error  { return nil }
func (noStream) SendHeader(metadata.MD) error { return nil }
func (noStream) SetTrailer(metadata.MD) error { return nil }
