package draft

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// identityOf looks in a method's response for what identifies the created thing. It returns a JSON pointer, or "" if
// there is none.
func identityOf(m protoreflect.MethodDescriptor) string {
	i := &identities{method: m}
	if found := i.in(m.Output(), 0); found != "" {
		return found
	}
	return i.textIn(m.Output())
}

type identities struct{ method protoreflect.MethodDescriptor }

// in looks for a field whose name or annotation says that it is an identity, and then into the messages inside.
func (i *identities) in(m protoreflect.MessageDescriptor, depth int) string {
	for _, is := range []func(f protoreflect.FieldDescriptor) bool{
		func(f protoreflect.FieldDescriptor) bool { return annotationsOf(f).identifier },
		func(f protoreflect.FieldDescriptor) bool { return f.Name() == "id" },
		func(f protoreflect.FieldDescriptor) bool {
			return f.Name() == "uuid" || f.Name() == "uid" || f.Name() == "guid"
		},
		func(f protoreflect.FieldDescriptor) bool {
			return plain(string(f.Name())) == plain(string(m.Name()))+"id"
		},
		func(f protoreflect.FieldDescriptor) bool {
			name := string(f.Name())
			return !i.isSent(f) && (strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "Id") ||
				name == "reference" || name == "number")
		},
		func(f protoreflect.FieldDescriptor) bool { return f.Name() == "name" && !i.isSent(f) },
	} {
		if f := firstOf(m, func(f protoreflect.FieldDescriptor) bool { return tells(f) && is(f) }); f != nil {
			return pointerTo(f)
		}
	}
	if depth == 2 {
		return ""
	}
	for n := range m.Fields().Len() {
		f := m.Fields().Get(n)
		if f.Message() == nil || f.IsList() || f.IsMap() || strings.HasPrefix(string(f.Message().FullName()), "google.") {
			continue
		}
		if found := i.in(f.Message(), depth+1); found != "" {
			return pointerTo(f) + found
		}
	}
	return ""
}

// textIn returns a pointer to any text that the request does not have.
func (i *identities) textIn(m protoreflect.MessageDescriptor) string {
	f := firstOf(m, func(f protoreflect.FieldDescriptor) bool {
		return f.Kind() == protoreflect.StringKind && tells(f) && !i.isSent(f) &&
			!strings.Contains(plain(string(f.Name())), "message")
	})
	if f == nil {
		return ""
	}
	return pointerTo(f)
}

// isSent reports whether the request has the field too: such a field may just be copied into the response.
func (i *identities) isSent(f protoreflect.FieldDescriptor) bool {
	return i.method.Input().Fields().ByName(f.Name()) != nil
}

// firstOf returns the first field for which a condition holds.
func firstOf(m protoreflect.MessageDescriptor,
	is func(protoreflect.FieldDescriptor) bool,
) protoreflect.FieldDescriptor {
	for i := range m.Fields().Len() {
		if f := m.Fields().Get(i); is(f) {
			return f
		}
	}
	return nil
}

// tells reports whether a field has one text or one whole number, which can identify something.
func tells(f protoreflect.FieldDescriptor) bool {
	if f.IsList() {
		return false
	}
	switch f.Kind() {
	case protoreflect.BoolKind, protoreflect.EnumKind, protoreflect.FloatKind, protoreflect.DoubleKind,
		protoreflect.MessageKind, protoreflect.GroupKind:
		return false
	}
	return true
}

// pointerTo returns the JSON pointer to a field.
func pointerTo(f protoreflect.FieldDescriptor) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(f.JSONName())
}

// leadsInto finds a pointer that leads nowhere in a message. Where names are not described it may lead anywhere.
func leadsInto(m protoreflect.MessageDescriptor, pointer string) error {
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		f := m.Fields().ByJSONName(part)
		if byName := m.Fields().ByName(protoreflect.Name(part)); f == nil && byName != nil {
			return fmt.Errorf("%s is called %s in JSON: write %s", part, byName.JSONName(),
				strings.Replace(pointer, part, byName.JSONName(), 1))
		}
		if f == nil {
			return fmt.Errorf("%s: %s has no %s; it has %s", pointer, m.FullName(), part, fieldsOf(m))
		}
		if f.Message() == nil || f.IsList() || f.IsMap() ||
			strings.HasPrefix(string(f.Message().FullName()), "google.protobuf.") {
			return nil
		}
		m = f.Message()
	}
	return nil
}

// fieldsOf lists a message's fields as they are called in JSON.
func fieldsOf(m protoreflect.MessageDescriptor) string {
	var names []string
	for i := range m.Fields().Len() {
		names = append(names, m.Fields().Get(i).JSONName())
	}
	if len(names) == 0 {
		return "no fields"
	}
	return strings.Join(names, ", ")
}
