package grpcprobe_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/reflection"
	v1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// fault is a way in which a shop is wrong.
type fault string

// shop is a service that is safe to retry, but for its faults.
type shop struct {
	faults  map[fault]bool
	files   *protoregistry.Files
	effects atomic.Int64

	mu      sync.Mutex
	records map[string]*record
	lookups map[string]chan struct{} // of keys that are being looked up: see looked
}

// Count implements probe.Counter.
func (s *shop) Count(context.Context) (int64, error) { return s.effects.Load(), nil }

// served is how a shop is served.
type served struct {
	noV1, noAlpha bool // versions of reflection that are not offered
	tls           *tls.Config
}

// open serves a shop on loopback until the test ends.
func open(t *testing.T, how served, faults ...fault) (*shop, string) {
	t.Helper()
	s := &shop{faults: map[fault]bool{}, records: map[string]*record{}, lookups: map[string]chan struct{}{}}
	for _, f := range faults {
		s.faults[f] = true
	}
	var err error
	if s.files, err = protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto), shopFile(),
	}}); err != nil {
		t.Fatal(err)
	}
	var options []grpc.ServerOption
	if how.tls != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(how.tls)))
	}
	server := grpc.NewServer(options...)
	server.RegisterService(s.description(), s)
	reflected := reflection.ServerOptions{Services: server, DescriptorResolver: s.files}
	if !how.noV1 {
		v1.RegisterServerReflectionServer(server, reflection.NewServerV1(reflected))
	}
	if !how.noAlpha {
		alpha := v1.ServerReflection_ServiceDesc // the same messages under another name
		alpha.ServiceName = "grpc.reflection.v1alpha.ServerReflection"
		server.RegisterService(&alpha, reflection.NewServerV1(reflected))
	}
	return s, serve(t, server)
}

// serve serves on loopback until the test ends.
func serve(t *testing.T, server *grpc.Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// shopFile is what protoc would make of:
//
//	service Things {
//	  rpc Create(CreateRequest) returns (Thing);  // and Slowly, Refuse, Break, Overload
//	  rpc Watch(CreateRequest) returns (stream Thing);
//	}
func shopFile() *descriptorpb.FileDescriptorProto {
	field := func(n int32, name string, kind descriptorpb.FieldDescriptorProto_Type,
		message string,
	) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{
			Name: &name, Number: &n, Type: kind.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		if message != "" {
			f.TypeName = &message
		}
		return f
	}
	const text, number, message = descriptorpb.FieldDescriptorProto_TYPE_STRING,
		descriptorpb.FieldDescriptorProto_TYPE_INT64, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	service := &descriptorpb.ServiceDescriptorProto{Name: proto.String("Things")}
	for _, name := range []string{"Create", "Slowly", "Refuse", "Break", "Overload", "Watch"} {
		service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(name), InputType: proto.String(".shop.v1.CreateRequest"),
			OutputType:      proto.String(".shop.v1.Thing"),
			ServerStreaming: proto.Bool(name == "Watch"),
		})
	}
	return &descriptorpb.FileDescriptorProto{
		Name: proto.String("shop/v1/things.proto"), Package: proto.String("shop.v1"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/timestamp.proto"}, Service: []*descriptorpb.ServiceDescriptorProto{service},
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("CreateRequest"), Field: []*descriptorpb.FieldDescriptorProto{
				field(1, "request_id", text, ""), field(2, "amount", number, ""), field(3, "note", text, ""),
				field(4, "due_at", message, ".google.protobuf.Timestamp"),
			}},
			{Name: proto.String("Thing"), Field: []*descriptorpb.FieldDescriptorProto{
				field(1, "thing_id", text, ""), field(2, "amount", number, ""), field(3, "shown", number, ""),
			}},
		},
	}
}

// description registers all methods by hand, as generated code would.
func (s *shop) description() *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: "shop.v1.Things", HandlerType: (*any)(nil), Metadata: "shop/v1/things.proto"}
	for _, name := range []string{"Create", "Slowly", "Refuse", "Break", "Overload"} {
		d.Methods = append(d.Methods, grpc.MethodDesc{
			MethodName: name,
			Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				in := dynamicpb.NewMessage(s.message("CreateRequest"))
				if err := decode(in); err != nil {
					return nil, err
				}
				return s.call(ctx, name, in)
			},
		})
	}
	return d
}

func (s *shop) message(name protoreflect.Name) protoreflect.MessageDescriptor {
	d, err := s.files.FindDescriptorByName(protoreflect.FullName("shop.v1").Append(name))
	if err != nil {
		panic(err)
	}
	return d.(protoreflect.MessageDescriptor)
}

// slowly is how long slow work takes.
const slowly = time.Second

// work is the shop itself: it knows nothing of keys.
func (s *shop) work(method string, in *dynamicpb.Message) (*dynamicpb.Message, error) {
	switch method {
	case "Slowly":
		time.Sleep(slowly)
	case "Refuse":
		return nil, status.Error(codes.NotFound, "there is no such customer")
	case "Overload":
		return nil, status.Error(codes.Unavailable, "too much to do")
	case "Break":
		s.effects.Add(1)
		return nil, status.Error(codes.Internal, "the connection to the database broke")
	}
	thing := dynamicpb.NewMessage(s.message("Thing"))
	set(thing, "thing_id", protoreflect.ValueOfString(fmt.Sprintf("thing-%d", s.effects.Add(1))))
	set(thing, "amount", get(in, "amount"))
	return thing, nil
}

func get(m *dynamicpb.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

func set(m *dynamicpb.Message, name protoreflect.Name, v protoreflect.Value) {
	m.Set(m.Descriptor().Fields().ByName(name), v)
}
