package grpcsafe_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/grpcsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// An answer that is larger than the client takes: the operation has run, although the code asserts the contrary. Seen
// to fail without Begun.
func TestAnswerLargerThanTheClientTakes(t *testing.T) {
	calls := 0
	address := serve(t, func(context.Context, *shoppb.CreateRequest) (proto.Message, error) {
		calls++
		return &shoppb.Thing{ThingId: "thing-1"}, nil
	}, grpc.UnaryInterceptor(pass))
	o := rpcsafe.ClientOptions{Options: client.Options{Backoff: time.Millisecond, MaxBackoff: time.Millisecond}}
	conn := connect(t, address, grpc.WithUnaryInterceptor(grpcsafe.UnaryClientInterceptor(o)))
	err := conn.Invoke(t.Context(), create, &shoppb.CreateRequest{Amount: 17}, new(shoppb.Thing), grpc.MaxCallRecvMsgSize(1))
	if codeOf(err) != codes.ResourceExhausted || !errors.Is(err, client.ErrOutcomeUnknown) || calls != 4 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// stock is what many channels have: grpc-go retries UNAVAILABLE by itself, and knows nothing of keys.
const stock = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 5, "initialBackoff": "0.01s", "maxBackoff": "0.1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// Seen to fail with a header on refusals, and with ABORTED.
func TestStockRetryPolicy(t *testing.T) {
	k := newKit(t)
	k.options.InFlightUnavailable = true
	k.dial = []grpc.DialOption{grpc.WithDefaultServiceConfig(stock)}
	refused, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	k.outside = []grpc.UnaryServerInterceptor{func(ctx context.Context, in any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (any, error) {
		out, err := handler(ctx, in)
		if codeOf(err) == codes.Unavailable {
			once.Do(func() {
				close(refused)
				<-ended // so that the next try gets the answer
			})
		}
		return out, err
	}}
	again := make(chan *answer)
	k.during(func() {
		go func() { again <- k.create("k") }()
		<-refused
	}).wantThing("thing-1", false)
	close(ended)
	(<-again).wantThing("thing-1", true)
	k.wantRuns(1)
}

// A kept error is final for stock policies too. Seen to fail, with five calls, with marker and pushback taken out of
// replay.
func TestStockRetryPolicyEndsAtAReplay(t *testing.T) {
	k := newKit(t)
	k.options.Class = func(code.Code) retrysafe.Class { return retrysafe.ClassStore }
	k.dial = []grpc.DialOption{grpc.WithDefaultServiceConfig(stock)}
	calls := 0
	k.outside = []grpc.UnaryServerInterceptor{func(ctx context.Context, in any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (any, error) {
		calls++
		return handler(ctx, in)
	}}
	k.work = func(context.Context, *shoppb.CreateRequest) (proto.Message, error) {
		return nil, status.Error(codes.Unavailable, "kept")
	}
	k.create("k").wantCode(codes.Unavailable).wantReplayed(true)
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}

// The interceptor and the server together: the answer to the first call is lost on the way.
func TestLostAnswer(t *testing.T) {
	k := newKit(t)
	lost := false
	k.outside = []grpc.UnaryServerInterceptor{func(ctx context.Context, in any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (any, error) {
		out, err := handler(ctx, in)
		if !lost {
			lost = true
			return nil, status.Error(codes.Unavailable, "the connection broke")
		}
		return out, err
	}}
	k.dial = []grpc.DialOption{grpc.WithUnaryInterceptor(grpcsafe.UnaryClientInterceptor(rpcsafe.ClientOptions{Options: client.Options{Backoff: time.Millisecond}}))}
	k.create("").wantThing("thing-1", true)
	k.wantRuns(1)
}
