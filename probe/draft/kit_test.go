package draft

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// described is a server that has the service shop.v1.Shop. Its methods are written as in "Create CreateRequest
// Order", with "stream" behind them if they are streams, or "reads" if they declare that they have no side effects.
func described(t *testing.T, methods []string, messages ...*descriptorpb.DescriptorProto) Service {
	t.Helper()
	shop := &descriptorpb.ServiceDescriptorProto{Name: proto.String("Shop")}
	for _, m := range methods {
		words := append(strings.Fields(m), "")
		made := &descriptorpb.MethodDescriptorProto{
			Name: &words[0], InputType: proto.String(".shop.v1." + words[1]),
			OutputType: proto.String(".shop.v1." + words[2]),
		}
		made.ServerStreaming = proto.Bool(words[3] == "stream")
		if words[3] == "reads" {
			made.Options = &descriptorpb.MethodOptions{IdempotencyLevel: descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum()}
		}
		shop.Method = append(shop.Method, made)
	}
	kind := &descriptorpb.EnumDescriptorProto{Name: proto.String("Kind"), Value: []*descriptorpb.EnumValueDescriptorProto{
		{Name: proto.String("KIND_UNSPECIFIED"), Number: proto.Int32(0)},
		{Name: proto.String("CARD"), Number: proto.Int32(1)},
	}}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("shop.proto"), Package: proto.String("shop.v1"), Syntax: proto.String("proto3"),
		Dependency: []string{
			"google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto",
			"google/protobuf/duration.proto", "google/protobuf/field_mask.proto",
		},
		EnumType: []*descriptorpb.EnumDescriptorProto{kind}, MessageType: messages,
		Service: []*descriptorpb.ServiceDescriptorProto{shop},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	s := Service{Target: "grpc://127.0.0.1:50051"}
	for i := range file.Services().Len() {
		s.Offers = append(s.Offers, file.Services().Get(i))
	}
	return s
}

// message has fields that are written as in "string order_id", "repeated .shop.v1.Line lines" or "string state
// outputOnly".
func message(name string, fields ...string) *descriptorpb.DescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: &name}
	for i, text := range fields {
		f := &descriptorpb.FieldDescriptorProto{
			Number: proto.Int32(int32(i + 1)),
			Label:  descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		text, repeated := strings.CutPrefix(text, "repeated ")
		if repeated {
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		words := append(strings.Fields(text), "")
		f.Name, f.Options = &words[1], annotated(words[2])
		switch kind, ok := descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(words[0])]; {
		case ok:
			f.Type = descriptorpb.FieldDescriptorProto_Type(kind).Enum()
		case words[0] == ".shop.v1.Kind":
			f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum(), &words[0]
		default:
			f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), &words[0]
		}
		m.Field = append(m.Field, f)
	}
	return m
}

// annotated are options with an extension that is not linked in, as they come from a server.
func annotated(as string) *descriptorpb.FieldOptions {
	o := &descriptorpb.FieldOptions{}
	var raw []byte
	one := func(v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, fieldBehavior, protowire.VarintType), v)
	}
	switch as {
	case "outputOnly":
		raw = one(isOutputOnly)
	case "required":
		raw = one(isRequired)
	case "identifier":
		raw = one(isIdentifier)
	case "packed":
		raw = protowire.AppendBytes(protowire.AppendTag(nil, fieldBehavior, protowire.BytesType), []byte{1, isOutputOnly})
	case "uuid":
		raw = protowire.AppendBytes(protowire.AppendTag(nil, fieldInfo, protowire.BytesType), []byte{1 << 3, formatUUID4})
	}
	o.ProtoReflect().SetUnknown(raw)
	return o
}
