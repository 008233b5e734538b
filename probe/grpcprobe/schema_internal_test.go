package grpcprobe

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// A server that compares bytes must find the same ones. Seen to fail without Deterministic: dynamic messages have no
// order.
func TestTheSameRequestIsTheSameBytes(t *testing.T) {
	method := protodesc.ToFileDescriptorProto(descriptorpb.File_google_protobuf_descriptor_proto)
	method.Service = []*descriptorpb.ServiceDescriptorProto{{
		Name: ptr("S"),
		Method: []*descriptorpb.MethodDescriptorProto{{
			Name: ptr("M"), InputType: ptr(".google.protobuf.FieldOptions"), OutputType: ptr(".google.protobuf.FieldOptions"),
		}},
	}}
	file, err := protodesc.NewFile(method, nil)
	if err != nil {
		t.Fatal(err)
	}
	files := &protoregistry.Files{}
	if err := files.RegisterFile(file); err != nil {
		t.Fatal(err)
	}
	s, err := newSchema(files, []string{"/google.protobuf.S/M"})
	if err != nil {
		t.Fatal(err)
	}
	r := call{
		path:    "/google.protobuf.S/M",
		message: []byte(`{"packed": true, "lazy": true, "deprecated": true, "weak": true, "jstype": "JS_STRING"}`),
	}
	first, err := s.marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if again, err := s.marshal(r); err != nil || !bytes.Equal(first, again) {
			t.Fatalf("% x and then % x, %v", first, again, err)
		}
	}
}

func ptr(s string) *string { return &s }
