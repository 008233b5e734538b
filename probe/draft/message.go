package draft

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// aip155 is the profile of services that have the key in a field of the request.
const aip155 = "aip155"

// fill writes an example of the request, without the field that carries the key.
func (d *Draft) fill(m protoreflect.MethodDescriptor) {
	s := &sampler{left: maxFields, key: keyFieldOf(m.Input())}
	d.Body = s.request(m.Input())
	if s.key != "" {
		d.KeyField, d.Profile = s.key, aip155
	}
	if !generated.MatchString(d.Body) {
		d.vary()
	}
	if len(s.existing) > 0 {
		d.notef("%s may have to name what exists: write values that the service knows.", strings.Join(s.existing, ", "))
	}
	if s.left == 0 {
		d.notef("The request has more fields than are written here.")
	}
}

// vary makes a made-up text differ from request to request.
func (d *Draft) vary() {
	places := jsonPlaces(d.Body)
	edits := freeText(places, false)
	if i := slices.IndexFunc(places, func(p place) bool { return p.top && p.text == madeUpText }); len(edits) == 0 &&
		i >= 0 {
		edits = []edit{{places[i].end, places[i].end, " {{seq}}"}}
	}
	for _, e := range edits {
		d.Body = d.Body[:e.start] + e.text + d.Body[e.end:]
	}
	if len(edits) == 0 {
		d.notef("Nothing in the request changes from one call to the next. Put {{amount}}, {{seq}} or \"{{uuid}}\" " +
			"where it may: cases need a second request that differs.")
	}
}

// keyFieldOf returns the field of a request that carries the key, such as request_id of AIP-155, or "" if there is
// none.
func keyFieldOf(m protoreflect.MessageDescriptor) string {
	for _, is := range []func(string) bool{
		func(n string) bool { return n == "request_id" },
		func(n string) bool {
			return strings.Contains(n, "idempot") || n == "client_token" || n == "client_request_id"
		},
	} {
		for i := range m.Fields().Len() {
			if f := m.Fields().Get(i); f.Kind() == protoreflect.StringKind && !f.IsList() && is(string(f.Name())) {
				return string(f.Name())
			}
		}
	}
	return ""
}

// Messages may contain themselves, and have hundreds of fields.
const (
	maxNested = 4
	maxFields = 60
)

// sampler writes examples of messages in JSON, with generators.
type sampler struct {
	key      string                  // the field of the request that the probe sets itself
	left     int                     // fields that may still be written
	inside   []protoreflect.FullName // messages that are being written
	existing []string                // fields that name something
}

// request returns an example of a request, with each field on a line of its own.
func (s *sampler) request(m protoreflect.MessageDescriptor) string {
	if text, ok := s.wellKnown(m, ""); ok {
		return cmp.Or(text, "{}")
	}
	all := s.members(m)
	if len(all) < 2 {
		return "{" + strings.Join(all, "") + "}"
	}
	return "{\n  " + strings.Join(all, ",\n  ") + "\n}"
}

// message returns an example of a message inside another one, or "" if it is left out.
func (s *sampler) message(m protoreflect.MessageDescriptor, name string) string {
	if text, ok := s.wellKnown(m, name); ok {
		return text
	}
	if len(s.inside) > maxNested || slices.Contains(s.inside, m.FullName()) {
		return ""
	}
	return "{" + strings.Join(s.members(m), ", ") + "}"
}

// members returns the required fields, or all if none is declared to be required. It always includes an amount, which
// many cases change.
func (s *sampler) members(m protoreflect.MessageDescriptor) (all []string) {
	s.inside = append(s.inside, m.FullName())
	defer func() { s.inside = s.inside[:len(s.inside)-1] }()
	fields, chosen := m.Fields(), map[protoreflect.Name]bool{} // of what there can be one only
	some := false
	for i := range fields.Len() {
		some = some || annotationsOf(fields.Get(i)).required
	}
	for i := range fields.Len() {
		f := fields.Get(i)
		a, one := annotationsOf(f), f.ContainingOneof()
		wanted := !some || a.required || isAmount(string(f.Name())) && s.top()
		if !wanted || one != nil && chosen[one.Name()] {
			continue
		}
		if text := s.field(f, a); text != "" {
			all = append(all, quoted(f.JSONName())+": "+text)
			if one != nil {
				chosen[one.Name()] = true
			}
		}
	}
	return all
}

// top reports whether fields of the request itself are being written.
func (s *sampler) top() bool { return len(s.inside) == 1 }

// field returns an example of a field, or "" if it is left out.
func (s *sampler) field(f protoreflect.FieldDescriptor, a annotations) string {
	name := string(f.Name())
	if a.outputOnly || a.identifier || isOfTheService(f) || s.top() && name == s.key || f.IsMap() || s.left == 0 {
		return ""
	}
	s.left--
	text := s.value(f, a)
	if f.IsList() && text != "" {
		return "[" + text + "]"
	}
	return text
}

// isOfTheService reports whether the service fills in the field itself, such as a creation time or a state.
func isOfTheService(f protoreflect.FieldDescriptor) bool {
	switch name := plain(string(f.Name())); name {
	case "createtime", "createdat", "updatetime", "updatedat", "deletetime", "deletedat", "etag":
		return true
	default:
		return f.Message() != nil && strings.HasSuffix(name, "status")
	}
}
