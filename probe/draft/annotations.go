package draft

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Numbers of the extensions that Google's API design has for fields: google/api/field_behavior.proto (AIP-203),
// field_info.proto (AIP-202).
const (
	fieldBehavior = 1052
	fieldInfo     = 291403980
)

// Values of google.api.FieldBehavior, and of google.api.FieldInfo.Format.
const (
	isRequired   = 2
	isOutputOnly = 3
	isIdentifier = 8
	formatUUID4  = 1
)

// annotations are what a field's options say of it. Nothing is linked in that knows the extensions, so their bytes
// are read.
type annotations struct {
	required, outputOnly, identifier, uuid bool
}

// annotationsOf reads what the annotations of google.api say of a field. They are read from the wire format, so that
// the packages that define them need not be linked.
func annotationsOf(f protoreflect.FieldDescriptor) (a annotations) {
	a.required = f.Cardinality() == protoreflect.Required
	raw, err := proto.Marshal(f.Options())
	if err != nil {
		return a
	}
	eachField(raw, func(n protowire.Number, v uint64, inner []byte) {
		switch n {
		case fieldBehavior:
			a.behave(v, inner)
		case fieldInfo:
			eachField(inner, func(n protowire.Number, v uint64, _ []byte) { a.uuid = a.uuid || n == 1 && v == formatUUID4 })
		}
	})
	return a
}

// behave reads behaviours: one, or several that are packed.
func (a *annotations) behave(v uint64, packed []byte) {
	for {
		a.required = a.required || v == isRequired
		a.outputOnly = a.outputOnly || v == isOutputOnly
		a.identifier = a.identifier || v == isIdentifier
		next, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return
		}
		v, packed = next, packed[n:]
	}
}

// eachField calls see with the fields of a message: numbers in v, bytes in inner.
func eachField(raw []byte, see func(n protowire.Number, v uint64, inner []byte)) {
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return
		}
		raw = raw[n:]
		if n = protowire.ConsumeFieldValue(number, kind, raw); n < 0 {
			return
		}
		switch kind {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(raw)
			see(number, v, nil)
		case protowire.BytesType:
			inner, _ := protowire.ConsumeBytes(raw)
			see(number, 0, inner)
		}
		raw = raw[n:]
	}
}
