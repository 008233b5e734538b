package rpcsafe

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// field is the path of a field in a message, such as "request_id" or "payment.amount". Names are those of the .proto
// file or of JSON.
type field string

// in returns the message that holds the field, and the field's descriptor; ok is false if there is no such field. For
// a message on the path that is not set, holder is an empty message that must not be changed.
func (f field) in(m protoreflect.Message) (holder protoreflect.Message, d protoreflect.FieldDescriptor, ok bool) {
	for name := range strings.SplitSeq(string(f), ".") {
		if d != nil {
			if d.Message() == nil || d.Cardinality() == protoreflect.Repeated {
				return nil, nil, false
			}
			m = m.Get(d).Message()
		}
		fields := m.Descriptor().Fields()
		if d = fields.ByName(protoreflect.Name(name)); d == nil {
			d = fields.ByJSONName(name)
		}
		if d == nil {
			return nil, nil, false
		}
	}
	return m, d, d != nil
}

// text returns the value of a string field; ok is false if m has no string field at this path.
func (f field) text(m proto.Message) (value string, ok bool) {
	holder, d, ok := f.in(m.ProtoReflect())
	if !ok || d.Kind() != protoreflect.StringKind || d.Cardinality() == protoreflect.Repeated {
		return "", false
	}
	return holder.Get(d).String(), true
}

// clear empties the field if m has it.
func (f field) clear(m proto.Message) {
	if holder, d, ok := f.in(m.ProtoReflect()); ok && holder.IsValid() {
		holder.Clear(d)
	}
}

// set sets a string field. It reports false if m has no string field at this path, or if the message that holds the
// field is not set.
func (f field) set(m proto.Message, value string) bool {
	holder, d, ok := f.in(m.ProtoReflect())
	if !ok || !holder.IsValid() || d.Kind() != protoreflect.StringKind || d.Cardinality() == protoreflect.Repeated {
		return false
	}
	holder.Set(d, protoreflect.ValueOfString(value))
	return true
}

// without returns a copy of the message with these fields emptied; m itself if fields is empty.
func without(m proto.Message, fields ...field) proto.Message {
	if len(fields) == 0 {
		return m
	}
	m = proto.Clone(m)
	for _, f := range fields {
		f.clear(m)
	}
	return m
}

// bytes returns the field's part of a fingerprint: "" if the field is not set, else the encoding of a message with
// that field alone.
func (f field) bytes(m proto.Message) string {
	holder, d, ok := f.in(m.ProtoReflect())
	if !ok || !holder.Has(d) {
		return ""
	}
	alone := holder.New()
	alone.Set(d, holder.Get(d))
	return deterministic(alone.Interface())
}

func deterministic(m proto.Message) string {
	b, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
	if err != nil { // text that is not UTF-8; the codec has refused it before
		return ""
	}
	return string(b)
}
