package rpc

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/connectsafe"
	"github.com/retrysafe/retrysafe/grpcsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// stand is a service with one method behind one of the adapters, and a client of grpc-go.
type stand struct {
	*testing.T
	store   retrysafe.Store
	clock   atomic.Int64 // of the default store, in nanoseconds
	down    atomic.Bool  // the default store fails
	newer   atomic.Bool  // a newer version of the service saves answers of a type that this one does not have
	policy  retrysafe.Policy
	grpc    rpcsafe.Options
	connect rpcsafe.Options
	work    func(ctx context.Context) said
	ran     atomic.Int64
	dial    []grpc.DialOption
	conn    *grpc.ClientConn
	adapter
}

// adapter is one of the two, or connectsafe configured to answer like grpcsafe.
type adapter struct {
	serve     func(*stand) (address string)
	setReply  func(ctx context.Context, m proto.Message) error
	setHeader func(ctx context.Context, name, value string) error
}

func adapters() map[string]adapter {
	setHeader := func(ctx context.Context, name, value string) error {
		info, ok := connect.CallInfoForHandlerContext(ctx)
		if !ok {
			return errors.New("no call of Connect's")
		}
		info.ResponseHeader().Set(name, value)
		return nil
	}
	return map[string]adapter{
		"grpcsafe": {(*stand).serveGRPC, rpcsafe.SetReply, func(ctx context.Context, name, value string) error {
			return grpc.SetHeader(ctx, metadata.Pairs(name, value))
		}},
		"connectsafe": {func(s *stand) string { return serveHTTP(s.T, s.handler()) }, rpcsafe.SetReply, setHeader},
		"connectsafe, TrailersOnly": {func(s *stand) string {
			return serveHTTP(s.T, connectsafe.TrailersOnly(s.handler()))
		}, rpcsafe.SetReply, setHeader},
	}
}

// said is the answer of a handler.
type said struct {
	thing           proto.Message
	status          *spb.Status // nil: OK
	header, trailer metadata.MD
}

// behindBoth runs a test against each adapter.
func behindBoth(t *testing.T, test func(s *stand)) {
	for name, a := range adapters() {
		t.Run(name, func(t *testing.T) { test(newStand(t, a)) })
	}
}

func newStand(t *testing.T, a adapter) *stand {
	s := &stand{T: t, adapter: a}
	s.store = &downStore{memstore.New(memstore.Options{Clock: func() time.Duration { return time.Duration(s.clock.Load()) }}), &s.down, &s.newer}
	s.work = func(context.Context) said { return said{thing: &shoppb.Thing{ThingId: "thing-1"}} }
	return s
}

// downStore fails while it is down.
type downStore struct {
	*memstore.Store
	down, newer *atomic.Bool
}

func (s *downStore) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	if s.newer.Load() {
		r.Meta = bytes.ReplaceAll(r.Meta, []byte(`.Thing"`), []byte(`.NewerThing"`))
	}
	return s.Store.Complete(ctx, l, r, keep)
}

func (s *downStore) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if s.down.Load() {
		return retrysafe.Claim{}, errors.New("store is down")
	}
	return s.Store.Claim(ctx, p)
}

func (s *stand) guard() *retrysafe.Guard {
	return retrysafe.New(s.store, retrysafe.Options{Policy: s.policy, SweepEvery: -1})
}

func (s *stand) serveGRPC() string {
	guarded := grpcsafe.UnaryServerInterceptor(s.guard(), grpcsafe.ScopeCredential(), s.grpc)
	server := grpc.NewServer(grpc.UnaryInterceptor(guarded))
	handler := func(ctx context.Context, _ any) (any, error) {
		s.ran.Add(1)
		a := s.work(ctx)
		err := errors.Join(grpc.SetHeader(ctx, a.header), grpc.SetTrailer(ctx, a.trailer))
		if a.status != nil {
			return nil, status.FromProto(a.status).Err()
		}
		return a.thing, err
	}
	server.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Create", Handler: func(_ any, ctx context.Context, decode func(any) error,
			by grpc.UnaryServerInterceptor,
		) (any, error) {
			in := new(shoppb.CreateRequest)
			if err := decode(in); err != nil {
				return nil, err
			}
			return by(ctx, in, &grpc.UnaryServerInfo{FullMethod: "/" + service + "/Create"}, handler)
		},
	}}}, s)
	return serveGRPC(s.T, server)
}

// handler returns the same service for Connect.
func (s *stand) handler() http.Handler {
	guarded := connect.WithInterceptors(connectsafe.NewInterceptor(s.guard(), connectsafe.ScopeCredential(), s.connect))
	return connect.NewUnaryHandlerSimple("/"+service+"/Create",
		func(ctx context.Context, _ *shoppb.CreateRequest) (*shoppb.Thing, error) {
			s.ran.Add(1)
			a := s.work(ctx)
			info, _ := connect.CallInfoForHandlerContext(ctx)
			add(info.ResponseHeader(), a.header)
			add(info.ResponseTrailer(), a.trailer)
			if a.status == nil {
				return a.thing.(*shoppb.Thing), nil
			}
			e := connect.NewError(connect.Code(a.status.Code), errors.New(a.status.Message))
			for _, packed := range a.status.Details {
				d, err := connect.NewErrorDetail(packed)
				if err != nil {
					return nil, err
				}
				e.AddDetail(d)
			}
			return nil, e
		}, guarded)
}

// add writes bytes in base64, as Connect's handlers do.
func add(h http.Header, md metadata.MD) {
	for name, values := range md {
		for _, v := range values {
			if strings.HasSuffix(name, "-bin") {
				v = connect.EncodeBinaryHeader([]byte(v))
			}
			h.Add(name, v)
		}
	}
}

type change func(*shoppb.CreateRequest, metadata.MD)

func amount(n int64) change { return func(in *shoppb.CreateRequest, _ metadata.MD) { in.Amount = n } }

func requestID(id string) change {
	return func(in *shoppb.CreateRequest, _ metadata.MD) { in.RequestId = id }
}

func entry(name string, values ...string) change {
	return func(_ *shoppb.CreateRequest, md metadata.MD) { md[name] = values }
}

// send calls Create under a key, unless that is empty.
func (s *stand) send(key string, changes ...change) answer {
	if s.conn == nil {
		s.conn = dial(s.T, s.serve(s), s.dial...)
	}
	md, in := metadata.Pairs("authorization", "Bearer a"), &shoppb.CreateRequest{Amount: 17}
	if key != "" {
		md.Set("idempotency-key", key)
	}
	for _, f := range changes {
		f(in, md)
	}
	a := answer{thing: new(shoppb.Thing)}
	ctx := metadata.NewOutgoingContext(s.Context(), md)
	a.err = s.conn.Invoke(ctx, "/"+service+"/Create", in, a.thing, grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	return a
}

// during returns the result of a call while another call with its key is in flight.
func (s *stand) during(call func() answer) (a answer) {
	began, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	work := s.work
	s.work = func(ctx context.Context) said {
		close(began)
		<-goOn
		return work(ctx)
	}
	s.conn = dial(s.T, s.serve(s))
	go func() {
		defer close(ended)
		s.send("k")
	}()
	<-began
	a = call()
	close(goOn)
	<-ended
	return a
}

func (s *stand) wantRuns(want int64) {
	s.Helper()
	if got := s.ran.Load(); got != want {
		s.Errorf("the handler ran %d times, want %d", got, want)
	}
}
