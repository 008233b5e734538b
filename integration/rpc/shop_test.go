package rpc

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/connectsafe"
	"github.com/retrysafe/retrysafe/grpcsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

const service = "shop.v1.Things"

// unary returns the methods of the shop that can be guarded.
func unary() []string { return []string{"Create", "Change", "Slowly", "Refuse", "Break"} }

// shop creates a thing for every call.
type shop struct {
	made atomic.Int64
	slow func(ctx context.Context) // Slowly waits for it; nil: a second
}

// Count implements probe.Counter.
func (s *shop) Count(context.Context) (int64, error) { return s.made.Load(), nil }

func (s *shop) call(ctx context.Context, method string, in *shoppb.CreateRequest) (*shoppb.Thing, error) {
	switch method {
	case "Slowly":
		if s.slow != nil {
			s.slow(ctx)
			break
		}
		time.Sleep(time.Second) // what the probe calls slow
	case "Refuse":
		return nil, status.Error(codes.NotFound, "there is no such customer")
	case "Break":
		s.made.Add(1)
		return nil, status.Error(codes.Internal, "the connection to the database broke")
	}
	return &shoppb.Thing{ThingId: fmt.Sprintf("thing-%d", s.made.Add(1)), Amount: in.Amount}, nil
}

// description is the service description that protoc-gen-go-grpc would generate.
func (s *shop) description() *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Metadata: "shoppb/shop.proto"}
	for _, method := range unary() {
		handler := func(ctx context.Context, in any) (any, error) {
			return s.call(ctx, method, in.(*shoppb.CreateRequest))
		}
		d.Methods = append(d.Methods, grpc.MethodDesc{
			MethodName: method,
			Handler: func(_ any, ctx context.Context, decode func(any) error, by grpc.UnaryServerInterceptor) (any, error) {
				in := new(shoppb.CreateRequest)
				if err := decode(in); err != nil {
					return nil, err
				}
				if by == nil {
					return handler(ctx, in)
				}
				return by(ctx, in, &grpc.UnaryServerInfo{FullMethod: "/" + service + "/" + method}, handler)
			},
		})
	}
	return d
}

// server returns a gRPC server with the shop, guarded.
func (s *shop) server(guard *retrysafe.Guard, o rpcsafe.Options) *grpc.Server {
	server := grpc.NewServer(grpc.UnaryInterceptor(grpcsafe.UnaryServerInterceptor(guard, grpcsafe.ScopeCredential(), o)))
	server.RegisterService(s.description(), s)
	reflection.Register(server)
	return server
}

// handler returns the same for Connect. Reflection is grpc-go's.
func (s *shop) handler(guard *retrysafe.Guard, o rpcsafe.Options) http.Handler {
	guarded := connect.WithInterceptors(connectsafe.NewInterceptor(guard, connectsafe.ScopeCredential(), o))
	mux := http.NewServeMux()
	for _, method := range unary() {
		procedure := "/" + service + "/" + method
		mux.Handle(procedure, connect.NewUnaryHandlerSimple(procedure,
			func(ctx context.Context, in *shoppb.CreateRequest) (*shoppb.Thing, error) {
				thing, err := s.call(ctx, method, in)
				if err != nil {
					return nil, connect.NewError(connect.Code(status.Code(err)), fmt.Errorf("%s", status.Convert(err).Message()))
				}
				return thing, nil
			}, guarded))
	}
	described := grpc.NewServer()
	described.RegisterService(s.description(), s)
	reflection.Register(described)
	mux.Handle("/grpc.reflection.", described)
	mux.Handle("/grpc.reflection.v1.ServerReflection/", described)
	mux.Handle("/grpc.reflection.v1alpha.ServerReflection/", described)
	return mux
}

func listenLoopback() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := listenLoopback()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serveGRPC serves on loopback until the test ends.
func serveGRPC(t testing.TB, server *grpc.Server) (address string) {
	t.Helper()
	l := listen(t)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return l.Addr().String()
}

// serveHTTP serves HTTP/2 in the clear on loopback until the test ends.
func serveHTTP(t testing.TB, h http.Handler) (address string) {
	t.Helper()
	l := listen(t)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: h, Protocols: protocols, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return l.Addr().String()
}

func dial(t testing.TB, address string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address,
		append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// answer is the result of a call.
type answer struct {
	thing           *shoppb.Thing
	err             error
	header, trailer metadata.MD
}

func (a answer) replayed() bool { return len(a.header["idempotent-replayed"]) > 0 }

// send makes a call under a key.
func send(ctx context.Context, conn *grpc.ClientConn, method, key string) answer {
	a := answer{thing: new(shoppb.Thing)}
	ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key, "authorization", "Bearer a")
	a.err = conn.Invoke(ctx, "/"+service+"/"+method, &shoppb.CreateRequest{Amount: 17}, a.thing,
		grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	return a
}
