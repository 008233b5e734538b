package rpcsafe

import (
	"bytes"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/runtime/protoiface"
)

// A codec writes the entries of a map in any order, and fields that a program does not know behind those that it knows. So that every
// caller gets the same bytes, such a message is handed on as one that has its content, and its bytes.

// message returns a stored message: of its own type, unless that would change its bytes.
func (s *Server) message(name string, stored []byte) (proto.Message, error) {
	kind, err := s.o.Types.FindMessageByName(protoreflect.FullName(name))
	if err != nil {
		return nil, err
	}
	m := kind.New().Interface()
	if err := proto.Unmarshal(stored, m); err != nil {
		return nil, err
	}
	if !s.stable.has(kind.Descriptor()) {
		return exactly(m, stored), nil
	}
	if again, err := proto.Marshal(m); err != nil || !bytes.Equal(again, stored) {
		return exactly(m, stored), nil
	}
	return m, nil
}

// Exact is a message that is written as the bytes it was made from, whatever its fields are.
type Exact struct{ exact }

// exactly returns a message with m's content that is written as stored.
func exactly(m proto.Message, stored []byte) *Exact {
	return &Exact{exact{Message: m.ProtoReflect(), stored: stored}}
}

// NewExact returns a message with m's content that is written as m is now.
func NewExact(m proto.Message) (*Exact, error) {
	if x, ok := m.(*Exact); ok {
		return x, nil
	}
	b, err := proto.Marshal(m)
	return exactly(m, b), err
}

// ProtoReflect implements proto.Message.
func (x *Exact) ProtoReflect() protoreflect.Message { return &x.exact }

// exact is the message as codecs see it: all but its encoding is that of the message inside.
type exact struct {
	protoreflect.Message
	stored []byte
}

// ProtoMethods is where package proto looks for a message's own encoding.
func (x *exact) ProtoMethods() *protoiface.Methods {
	return &protoiface.Methods{
		Flags: protoiface.SupportMarshalDeterministic,
		Size: func(protoiface.SizeInput) protoiface.SizeOutput {
			return protoiface.SizeOutput{Size: len(x.stored)}
		},
		Marshal: func(in protoiface.MarshalInput) (protoiface.MarshalOutput, error) {
			return protoiface.MarshalOutput{Buf: append(in.Buf, x.stored...)}, nil
		},
	}
}

// stableTypes remembers which types are written in one way only: those without maps.
type stableTypes struct{ known sync.Map } // protoreflect.FullName -> bool

func (t *stableTypes) has(d protoreflect.MessageDescriptor) bool {
	if known, ok := t.known.Load(d.FullName()); ok {
		return known.(bool)
	}
	stable := !holdsMap(d, map[protoreflect.FullName]bool{})
	t.known.Store(d.FullName(), stable)
	return stable
}

// holdsMap reports whether a message of this type can have a map in it, at any depth.
func holdsMap(d protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[d.FullName()] {
		return false
	}
	seen[d.FullName()] = true
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if f.IsMap() || f.Message() != nil && holdsMap(f.Message(), seen) {
			return true
		}
	}
	return false
}
