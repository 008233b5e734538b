package rpcsafe

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// TagPlace is where the value of a tag is in a call: in one of two places.
type TagPlace struct {
	// Field is a field of the request: "order_id". Names of nested fields are joined by dots. It gives a string as it is,
	// a number or a bool as text, and the name of an enum's value. A field that is not set, or of another type, gives
	// nothing; so does a number, a bool or an enum that is zero, unless the field is optional.
	Field string
	// Metadata is the name of a metadata entry (over Connect: of a header). The first of several values counts.
	Metadata string
}

// Validate returns an error if the tag has no place or both, or if a name cannot be that of a field or an entry.
func (p TagPlace) Validate() error {
	switch {
	case (p.Field == "") == (p.Metadata == ""):
		return errors.New("a tag comes from one place: set Field or Metadata")
	case p.Field != "" && !isPath(p.Field):
		return fmt.Errorf("%q is not a field: write its name, or names joined by dots", p.Field)
	case p.Metadata != "" && !isName(p.Metadata):
		return fmt.Errorf("%q is not a valid name of metadata", p.Metadata)
	case isBinary(p.Metadata):
		return fmt.Errorf("%s: names that end in -bin carry bytes, and a tag is text", p.Metadata)
	}
	return nil
}

// value returns what is at the place; "" if there is nothing that can be a tag's value.
func (p TagPlace) value(c Call) string {
	switch {
	case p.Metadata != "":
		if values := c.Metadata(p.Metadata); len(values) > 0 {
			return values[0]
		}
		return ""
	case c.Request == nil:
		return ""
	}
	holder, d, ok := field(p.Field).in(c.Request.ProtoReflect())
	if !ok || d.Cardinality() == protoreflect.Repeated || !holder.Has(d) {
		return ""
	}
	v := holder.Get(d)
	switch d.Kind() {
	case protoreflect.BytesKind, protoreflect.MessageKind, protoreflect.GroupKind:
		return ""
	case protoreflect.EnumKind:
		if named := d.Enum().Values().ByNumber(v.Enum()); named != nil {
			return string(named.Name())
		}
	}
	return v.String()
}
