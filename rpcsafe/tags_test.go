package rpcsafe

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The value of a tag is text, a number, a bool or the name of an enum's value. Fields of other types, and those that are
// not set, have none. Seen to fail with each condition of value taken out.
func TestValuesOfTags(t *testing.T) {
	for _, c := range []struct {
		m           proto.Message
		field, want string
	}{
		{wrapperspb.String("o-17"), "value", "o-17"},
		{wrapperspb.Int64(-9007199254740993), "value", "-9007199254740993"},
		{wrapperspb.UInt64(1 << 63), "value", "9223372036854775808"},
		{wrapperspb.Double(0.1), "value", "0.1"},
		{wrapperspb.Bool(true), "value", "true"},
		{wrapperspb.Int64(0), "value", ""}, // which is how protobuf writes a number that was not set
		{wrapperspb.Bytes([]byte("o")), "value", ""},
		{&descriptorpb.MethodOptions{Deprecated: proto.Bool(false)}, "deprecated", "false"}, // it is optional
		{&descriptorpb.MethodOptions{IdempotencyLevel: descriptorpb.MethodOptions_IDEMPOTENT.Enum()}, "idempotencyLevel", "IDEMPOTENT"},
		{&descriptorpb.MethodOptions{IdempotencyLevel: descriptorpb.MethodOptions_IdempotencyLevel(7).Enum()}, "idempotency_level", "7"},
		{&descriptorpb.MethodOptions{}, "idempotency_level", ""},
		{&descriptorpb.DescriptorProto{ReservedName: []string{"o"}}, "reserved_name", ""},
		{structpb.NewStringValue("o"), "string_value", "o"},
		{&structpb.Struct{Fields: map[string]*structpb.Value{"a": nil}}, "fields", ""},
		{&descriptorpb.FileDescriptorProto{Options: &descriptorpb.FileOptions{GoPackage: proto.String("p")}}, "options.go_package", "p"},
		{&descriptorpb.FileDescriptorProto{Options: &descriptorpb.FileOptions{GoPackage: proto.String("p")}}, "options", ""},
		{&descriptorpb.FileDescriptorProto{}, "options.go_package", ""},
		{wrapperspb.String("o"), "order", ""},
		{nil, "value", ""},
	} {
		if got := (TagPlace{Field: c.field}).value(Call{Request: c.m}); got != c.want {
			t.Errorf("%s of %v: got %q, want %q", c.field, c.m, got, c.want)
		}
	}
}
