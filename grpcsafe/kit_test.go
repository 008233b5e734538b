package grpcsafe_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/grpcsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

const create = "/shop.v1.Things/Create"

type work func(ctx context.Context, in *shoppb.CreateRequest) (proto.Message, error)

// kit is a guarded gRPC server on loopback, and a client.
type kit struct {
	*testing.T
	options rpcsafe.Options
	scope   rpcsafe.ScopeFunc
	work    work
	outside []grpc.UnaryServerInterceptor
	dial    []grpc.DialOption
	ran     atomic.Int64

	once  sync.Once
	guard *retrysafe.Guard
	conn  *grpc.ClientConn
}

func newKit(t *testing.T) *kit {
	k := &kit{T: t, scope: grpcsafe.ScopeMetadata("caller")}
	k.work = func(_ context.Context, in *shoppb.CreateRequest) (proto.Message, error) {
		return &shoppb.Thing{ThingId: "thing-" + string(rune('0'+k.ran.Load())), Amount: in.Amount}, nil
	}
	return k
}

// start serves, once.
func (k *kit) start() {
	k.once.Do(func() {
		k.guard = retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{SweepEvery: -1})
		unary := append(k.outside, grpcsafe.UnaryServerInterceptor(k.guard, k.scope, k.options))
		address := serve(k.T, func(ctx context.Context, in *shoppb.CreateRequest) (proto.Message, error) {
			k.ran.Add(1)
			return k.work(ctx, in)
		}, grpc.ChainUnaryInterceptor(unary...), grpc.StreamInterceptor(grpcsafe.StreamServerInterceptor(k.options)))
		k.conn = connect(k.T, address, k.dial...)
	})
}

// serve serves shop.v1.Things on loopback until the test ends.
func serve(t testing.TB, w work, options ...grpc.ServerOption) (address string) {
	t.Helper()
	server := grpc.NewServer(options...)
	server.RegisterService(things(w), w)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return l.Addr().String()
}

// things is what protoc-gen-go-grpc would make of the service.
func things(w work) *grpc.ServiceDesc {
	unary := func(name string) grpc.MethodDesc {
		return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error,
			by grpc.UnaryServerInterceptor,
		) (any, error) {
			in := new(shoppb.CreateRequest)
			if err := decode(in); err != nil {
				return nil, err
			}
			handler := func(ctx context.Context, in any) (any, error) { return w(ctx, in.(*shoppb.CreateRequest)) }
			return by(ctx, in, &grpc.UnaryServerInfo{FullMethod: "/shop.v1.Things/" + name}, handler)
		}}
	}
	return &grpc.ServiceDesc{
		ServiceName: "shop.v1.Things", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{unary("Create"), unary("Get"), unary("Change")},
		Streams: []grpc.StreamDesc{{
			StreamName: "Watch", ServerStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error {
				return stream.SendMsg(&shoppb.Thing{ThingId: "seen"})
			},
		}},
	}
}

func connect(t testing.TB, address string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// answer is how a call ended.
type answer struct {
	*testing.T
	thing           proto.Message
	status          *status.Status
	err             error
	header, trailer metadata.MD
}

// call is what a test sends.
type call struct {
	md  metadata.MD
	in  *shoppb.CreateRequest
	out proto.Message
}

type change func(*call)

func entry(name string, v ...string) change {
	return func(c *call) { c.md[name] = v }
}
func into(m proto.Message) change { return func(c *call) { c.out = m } }

// create calls Create under a key.
func (k *kit) create(key string, changes ...change) *answer {
	k.Helper()
	k.start()
	return send(k.T, k.conn, key, changes...)
}

func send(t *testing.T, conn *grpc.ClientConn, key string, changes ...change) *answer {
	c := &call{
		md: metadata.Pairs("caller", "alice"),
		in: &shoppb.CreateRequest{Amount: 17}, out: new(shoppb.Thing),
	}
	if key != "" {
		c.md.Set("idempotency-key", key)
	}
	for _, f := range changes {
		f(c)
	}
	a := &answer{T: t, thing: c.out}
	a.err = conn.Invoke(metadata.NewOutgoingContext(t.Context(), c.md), create, c.in, c.out, grpc.Header(&a.header),
		grpc.Trailer(&a.trailer))
	a.status = status.Convert(a.err)
	return a
}

// wantThing checks for a response with this ID.
func (a *answer) wantThing(id string, replayed bool) *answer {
	a.Helper()
	if a.err != nil || a.thing.(*shoppb.Thing).ThingId != id {
		a.Errorf("got %v, %v; want %s", a.thing, a.err, id)
	}
	return a.wantReplayed(replayed)
}

func (a *answer) wantReplayed(want bool) *answer {
	a.Helper()
	if got := len(a.header["idempotent-replayed"]) == 1 && a.header["idempotent-replayed"][0] == "true"; got != want {
		a.Errorf("replayed %v, want %v (header %v)", got, want, a.header)
	}
	return a
}

func (a *answer) wantCode(want codes.Code) *answer {
	a.Helper()
	if a.status.Code() != want {
		a.Fatalf("got %v, want %v", a.err, want)
	}
	return a
}

func (k *kit) wantRuns(want int64) {
	k.Helper()
	if got := k.ran.Load(); got != want {
		k.Errorf("the handler ran %d times, want %d", got, want)
	}
}

// during runs f while a call with key k is in flight, and returns that call's answer.
func (k *kit) during(f func()) *answer {
	k.Helper()
	began, goOn, answered := make(chan struct{}), make(chan struct{}), make(chan *answer)
	inner := k.work
	k.work = func(ctx context.Context, in *shoppb.CreateRequest) (proto.Message, error) {
		if md, _ := metadata.FromIncomingContext(ctx); len(md["held"]) > 0 {
			close(began)
			<-goOn
		}
		return inner(ctx, in)
	}
	go func() { answered <- k.create("k", entry("held", "yes")) }()
	<-began
	f()
	close(goOn)
	return <-answered
}

// watch opens a stream, and reads it to its end.
func (k *kit) watch(key string) error {
	k.start()
	ctx := k.Context()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
	}
	stream, err := k.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/shop.v1.Things/Watch")
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(&shoppb.CreateRequest{}), stream.CloseSend()); err != nil {
		return err
	}
	return stream.RecvMsg(new(shoppb.Thing))
}

func codeOf(err error) codes.Code { return status.Code(err) }

func info(method string) *grpc.UnaryServerInfo { return &grpc.UnaryServerInfo{FullMethod: method} }
