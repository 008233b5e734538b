package rpcsafe

import (
	"bytes"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/runtime/protoiface"
)

// A codec writes the entries of a map in random order, and fields that a program does not know after those that it
// knows. A replay of such a message must still have the bytes of the first answer: it is sent as an Exact, which has
// the message's content and the stored bytes.

// message returns a stored message: in its own type, or as an Exact if encoding that type again could change the bytes.
func (s *Server) message(name string, stored []byte) (proto.Message, error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
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

// Exact is a message that is always encoded as the bytes it was made from.
type Exact struct{ exact }

// exactly returns a message with m's content that is encoded as stored.
func exactly(m proto.Message, stored []byte) *Exact {
	return &Exact{exact{Message: m.ProtoReflect(), stored: stored}}
}

// NewExact returns a message with m's content whose encoding is fixed: it is that of m at this moment. It returns the
// error of encoding m.
func NewExact(m proto.Message) (*Exact, error) {
	if x, ok := m.(*Exact); ok {
		return x, nil
	}
	b, err := proto.Marshal(m)
	return exactly(m, b), err
}

// ProtoReflect implements proto.Message.
func (x *Exact) ProtoReflect() protoreflect.Message { return &x.exact }

// exact is the message as codecs see it. Everything but its encoding is that of the embedded message.
type exact struct {
	protoreflect.Message
	stored []byte
}

// ProtoMethods replaces the encoding: package proto looks here for a message's own.
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

// stableTypes remembers which types always have the same encoding: those without maps.
type stableTypes struct{ known sync.Map } // protoreflect.FullName -> bool

func (t *stableTypes) has(d protoreflect.MessageDescriptor) bool {
	if known, ok := t.known.Load(d.FullName()); ok {
		return known.(bool)
	}
	stable := !holdsMap(d, map[protoreflect.FullName]bool{})
	t.known.Store(d.FullName(), stable)
	return stable
}

// holdsMap reports whether a message of this type can contain a map, at any depth.
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
