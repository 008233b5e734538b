package grpcsafe_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/grpcsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

func TestHealthIsNotGuarded(t *testing.T) {
	intercept := grpcsafe.UnaryServerInterceptor(nil, rpcsafe.ScopeNone(), rpcsafe.Options{Required: []string{"*"}})
	served := &healthpb.HealthCheckResponse{}
	got, err := intercept(t.Context(), &healthpb.HealthCheckRequest{}, info(healthpb.Health_Check_FullMethodName),
		func(context.Context, any) (any, error) { return served, nil })
	if got != any(served) || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// Both want grpc-go's own stream, see docs/grpc.md.
func TestCompressorsAreChosenOutside(t *testing.T) {
	k := newKit(t)
	k.work = func(ctx context.Context, _ *shoppb.CreateRequest) (proto.Message, error) {
		if _, err := grpc.ClientSupportedCompressors(ctx); err == nil || grpc.SetSendCompressor(ctx, gzip.Name) == nil {
			t.Error("this works by now: say so in the page")
		}
		return &shoppb.Thing{ThingId: "1"}, nil
	}
	k.outside = []grpc.UnaryServerInterceptor{func(ctx context.Context, in any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (any, error) {
		if err := grpc.SetSendCompressor(ctx, gzip.Name); err != nil {
			t.Error(err)
		}
		return handler(ctx, in)
	}}
	k.create("k").wantThing("1", false)
	k.create("k").wantThing("1", true)
}

// Seen to fail with StreamServerInterceptor passing every stream on.
func TestRejectUnsupported(t *testing.T) {
	k := newKit(t)
	k.options.RejectUnsupported = true
	if err := k.watch("k"); codeOf(err) != codes.Unimplemented {
		t.Errorf("a stream with a key: %v", err)
	}
	if err := k.watch(""); err != nil {
		t.Errorf("a stream without a key: %v", err)
	}
}

func TestStreamsPassByDefault(t *testing.T) {
	k := newKit(t)
	if err := k.watch("k"); err != nil {
		t.Error(err)
	}
}

func TestServerIsChecked(t *testing.T) {
	services := map[string]grpc.ServiceInfo{"a.B": {Methods: []grpc.MethodInfo{{Name: "C"}}}}
	for method, ok := range map[string]bool{"a.B/C": true, "a.B/*": true, "*": true, "a.B/c": false, "a.C/*": false} {
		err := grpcsafe.CheckServer(rpcsafe.Options{Methods: []string{method}, Required: []string{method}}, services)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "it has a.B/C") {
			t.Errorf("%s: %v", method, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an interceptor without a scope")
		}
	}()
	grpcsafe.UnaryServerInterceptor(nil, nil, rpcsafe.Options{})
}

func TestScopeFuncs(t *testing.T) {
	k := newKit(t)
	k.scope = grpcsafe.ScopeCredential()
	k.create("k", entry("authorization", "Bearer a")).wantThing("thing-1", false)
	k.create("k", entry("authorization", "Bearer b")).wantThing("thing-2", false)
	k.create("k", entry("authorization", "Bearer a")).wantThing("thing-1", true)
	k.create("k").wantCode(codes.Unauthenticated)
	k.create("k", entry("authorization", "DPoP a")).wantCode(codes.Unauthenticated) // made anew for each call
	if _, err := grpcsafe.ScopeMTLS()(t.Context()); err == nil {
		t.Error("a caller without a certificate")
	}
	if _, err := grpcsafe.ScopeMetadata("caller")(t.Context()); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a caller without a name: %v", err)
	}
}

// An interceptor inside of another with the same key lets the handler run. Seen to fail without a look at the
// context: every call was refused as in flight.
func TestInterceptorTwice(t *testing.T) {
	k := newKit(t)
	k.outside = []grpc.UnaryServerInterceptor{func(ctx context.Context, in any, info *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (any, error) {
		return grpcsafe.UnaryServerInterceptor(k.guard, k.scope, k.options)(ctx, in, info, handler)
	}}
	k.create("k").wantThing("thing-1", false)
	k.create("k").wantThing("thing-1", true)
	k.wantRuns(1)
}
