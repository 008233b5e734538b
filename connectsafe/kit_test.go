package connectsafe_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/connectsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

const (
	create = "/shop.v1.Things/Create"
	get    = "/shop.v1.Things/Get"
	label  = "/shop.v1.Things/Label"
	watch  = "/shop.v1.Things/Watch"
)

type (
	in   = connect.Request[shoppb.CreateRequest]
	out  = connect.Response[shoppb.Thing]
	work func(ctx context.Context, r *in) (*out, error)
)

// kit is a guarded Connect server on loopback that speaks all three protocols.
type kit struct {
	*testing.T
	options rpcsafe.Options
	scope   connectsafe.ScopeFunc
	work    work
	policy  retrysafe.Policy
	store   retrysafe.Store
	outside []connect.Interceptor
	ran     atomic.Int64
	url     string
}

func newKit(t *testing.T) *kit {
	k := &kit{T: t, scope: connectsafe.ScopeHeader("Caller"), store: memstore.New(memstore.Options{})}
	k.work = func(_ context.Context, r *in) (*out, error) {
		return connect.NewResponse(&shoppb.Thing{ThingId: fmt.Sprintf("thing-%d", k.ran.Load()), Amount: r.Msg.Amount}), nil
	}
	return k
}

func (k *kit) start() {
	if k.url != "" {
		return
	}
	guard := retrysafe.New(k.store, retrysafe.Options{Policy: k.policy, SweepEvery: -1})
	guarded := connect.WithInterceptors(append(k.outside, connectsafe.NewInterceptor(guard, k.scope, k.options))...)
	counted := func(ctx context.Context, r *in) (*out, error) {
		k.ran.Add(1)
		return k.work(ctx, r)
	}
	mux := http.NewServeMux()
	mux.Handle(create, connect.NewUnaryHandler(create, counted, guarded))
	mux.Handle(get, connect.NewUnaryHandler(get, counted, guarded,
		connect.WithIdempotency(connect.IdempotencyNoSideEffects)))
	mux.Handle(label, connect.NewUnaryHandlerSimple(label, k.label, guarded))
	mux.Handle(watch, connect.NewServerStreamHandler(watch,
		func(_ context.Context, _ *in, s *connect.ServerStream[shoppb.Thing]) error {
			return s.Send(&shoppb.Thing{ThingId: "seen"})
		}, guarded))
	k.url = serve(k.T, mux)
}

// label is written in Connect's simple style, with a response that has a map.
func (k *kit) label(ctx context.Context, r *shoppb.CreateRequest) (*shoppb.Labelled, error) {
	info, _ := connect.CallInfoForHandlerContext(ctx)
	info.ResponseHeader().Set("Location", fmt.Sprintf("/things/%d", k.ran.Add(1)))
	info.ResponseTrailer().Set("Cost", "17")
	return &shoppb.Labelled{ThingId: "labelled", Labels: r.Labels}, nil
}

// serve serves HTTP/1.1 and HTTP/2 in the clear on loopback until the test ends.
func serve(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, Protocols: protocols(), ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}

func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// h2c is a client of HTTP/2 in the clear.
func h2c(t *testing.T) *http.Client {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: p}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// speakers are clients of each protocol and codec.
func speakers() map[string][]connect.ClientOption {
	return map[string][]connect.ClientOption{
		"connect": nil, "connect JSON": {connect.WithProtoJSON()}, "grpc": {connect.WithGRPC()},
		"grpc-web": {connect.WithGRPCWeb()},
	}
}

// answer is how a call ended.
type answer struct {
	*testing.T
	response *out
	err      error
}

func (k *kit) create(key string, options ...connect.ClientOption) *answer {
	k.Helper()
	return k.send(create, k.request(key), options...)
}

func (k *kit) request(key string) *in {
	r := connect.NewRequest(&shoppb.CreateRequest{Amount: 17})
	r.Header().Set("Caller", "alice")
	if key != "" {
		r.Header().Set("Idempotency-Key", key)
	}
	return r
}

func (k *kit) send(procedure string, r *in, options ...connect.ClientOption) *answer {
	k.Helper()
	k.start()
	response, err := connect.NewClient[shoppb.CreateRequest, shoppb.Thing](h2c(k.T), k.url+procedure, options...).
		CallUnary(k.Context(), r)
	return &answer{k.T, response, err}
}

func (a *answer) wantThing(id string, replayed bool) *answer {
	a.Helper()
	if a.err != nil || a.response.Msg.ThingId != id {
		a.Fatalf("got %v, %v; want %s", a.response, a.err, id)
	}
	if got := a.response.Header().Get("Idempotent-Replayed") == "true"; got != replayed {
		a.Errorf("replayed %v, want %v", got, replayed)
	}
	return a
}

func (k *kit) wantRuns(want int64) {
	k.Helper()
	if got := k.ran.Load(); got != want {
		k.Errorf("the handler ran %d times, want %d", got, want)
	}
}
