package grpcprobe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// schema is what is known of the methods that the recipe calls.
type schema struct {
	methods map[string]protoreflect.MethodDescriptor // by path: /shop.v1.Payments/CreatePayment
	types   types
}

// types are those of the target, and those that are linked in, such as the details of errors.
type types struct{ of *dynamicpb.Types }

// FindMessageByName implements protojson's resolver.
func (t types) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	if m, err := t.of.FindMessageByName(name); err == nil {
		return m, nil
	}
	return protoregistry.GlobalTypes.FindMessageByName(name)
}

// FindMessageByURL implements protojson's resolver.
func (t types) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return t.FindMessageByName(protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:]))
}

// FindExtensionByName implements protojson's resolver.
func (t types) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return t.of.FindExtensionByName(name)
}

// FindExtensionByNumber implements protojson's resolver.
func (t types) FindExtensionByNumber(m protoreflect.FullName, n protoreflect.FieldNumber) (protoreflect.ExtensionType,
	error,
) {
	return t.of.FindExtensionByNumber(m, n)
}

// serviceOf splits the path of a method into service and method.
func serviceOf(path string) (service, method string, err error) {
	service, method, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !ok || service == "" || method == "" || strings.Contains(method, "/") {
		return "", "", fmt.Errorf("%q is not the full name of a method: write a name such as "+
			"shop.v1.Payments/CreatePayment",
			strings.TrimPrefix(path, "/"))
	}
	return service, method, nil
}

// newSchema finds the methods in the files. It returns an error for a method that does not exist or is not unary.
func newSchema(files *protoregistry.Files, paths []string) (*schema, error) {
	s := &schema{map[string]protoreflect.MethodDescriptor{}, types{dynamicpb.NewTypes(files)}}
	for _, path := range paths {
		service, name, err := serviceOf(path)
		if err != nil {
			return nil, err
		}
		found, err := files.FindDescriptorByName(protoreflect.FullName(service))
		if err != nil {
			return nil, fmt.Errorf("the server has no service %s", service)
		}
		described, ok := found.(protoreflect.ServiceDescriptor)
		if !ok {
			return nil, fmt.Errorf("%s is not a service", service)
		}
		m := described.Methods().ByName(protoreflect.Name(name))
		switch {
		case m == nil:
			return nil, fmt.Errorf("%s has no method %s; it has %s", service, name, strings.Join(methodsOf(described), ", "))
		case m.IsStreamingClient() || m.IsStreamingServer():
			return nil, fmt.Errorf("%s/%s is a streaming method: keys work with unary methods only", service, name)
		}
		s.methods[path] = m
	}
	return s, nil
}

// methodsOf returns the names of a service's methods, for error messages.
func methodsOf(s protoreflect.ServiceDescriptor) (names []string) {
	for i := range s.Methods().Len() {
		names = append(names, string(s.Methods().Get(i).Name()))
	}
	slices.Sort(names)
	return names
}

// marshal makes the bytes of a call. The same request is the same bytes each time.
func (s *schema) marshal(q call) ([]byte, error) {
	m, err := s.message(q)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// message returns a call's request. Fields that the type does not have are errors.
func (s *schema) message(q call) (*dynamicpb.Message, error) {
	method := s.methods[q.path]
	if method == nil {
		return nil, fmt.Errorf("%s has not been looked up", q.path)
	}
	m := dynamicpb.NewMessage(method.Input())
	if err := (protojson.UnmarshalOptions{Resolver: s.types}).Unmarshal(q.message, m); err != nil {
		return nil, fmt.Errorf("the request of %s is not a valid %s: %w", strings.TrimPrefix(q.path, "/"),
			method.Input().FullName(), err)
	}
	return m, nil
}

// response returns a response as JSON. Fields without a value are left out.
func (s *schema) response(path string, raw []byte) ([]byte, error) {
	m := dynamicpb.NewMessage(s.methods[path].Output())
	if err := (proto.UnmarshalOptions{Resolver: s.types}).Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("the response is not a valid %s: %w", m.Descriptor().FullName(), err)
	}
	return s.json(m)
}

// json returns a message in its JSON form, as protojson writes it.
func (s *schema) json(m proto.Message) ([]byte, error) {
	return protojson.MarshalOptions{Resolver: s.types}.Marshal(m)
}

// check says why a request cannot be sent: it does not fit its message, or the key does not fit into it.
func (s *schema) check(q call, field string) error {
	m, err := s.message(q)
	if err != nil || field == "" {
		return err
	}
	f := m.Descriptor().Fields().ByName(protoreflect.Name(field))
	if f == nil {
		f = m.Descriptor().Fields().ByJSONName(field)
	}
	switch {
	case f == nil:
		return fmt.Errorf("%s has no field %s to carry the key", m.Descriptor().FullName(), field)
	case f.Kind() != protoreflect.StringKind || f.IsList():
		return fmt.Errorf("the field %s of %s cannot carry the key, because it is not a string", field, m.Descriptor().FullName())
	case m.Has(f):
		return errors.New("the probe sets " + field + " itself, because that is what it tests: leave it out of " +
			"the request")
	}
	return nil
}
