package draft

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// Service is a gRPC service to draft a recipe for.
type Service struct {
	Target      string // grpc://127.0.0.1:50051
	Offers      []protoreflect.ServiceDescriptor
	Undescribed []string          // services that the server has too, and does not describe
	Metadata    []wire.HeaderLine // goes with each call
}

// FromGRPC makes a draft of a unary method. It is named as in shop.v1.Payments/CreatePayment, or by its last part if
// that is unambiguous. Without a name the method is inferred if only one can create a resource.
func FromGRPC(s Service, method string) (*Draft, error) {
	m, err := s.find(method)
	if err != nil {
		return nil, err
	}
	d := &Draft{Source: "what " + s.Target + " says of itself", Target: s.Target, Call: nameOf(m), call: m}
	for _, l := range s.Metadata {
		switch {
		case strings.Contains(strings.ToLower(l.Name), "idempot"): // the probe sends keys itself
		case isSecret(l.Name):
			d.addCredential(line{l.Name, l.Value})
		default:
			d.headers = append(d.headers, line{l.Name, withVariables(l.Value)})
		}
	}
	d.fill(m)
	d.IdentityPointer = identityOf(m)
	if method == "" {
		d.notef("%s was the one method that could be meant; --method names another.", m.Name())
	}
	return d, nil
}

// SetSlow names a method that takes the same request and a second or more.
func (d *Draft) SetSlow(s Service, method string) error {
	m, err := s.find(method)
	if err != nil {
		return err
	}
	if m.Input().FullName() != d.call.Input().FullName() {
		return fmt.Errorf("%s takes a %s, and %s a %s: both have the same request", nameOf(m), m.Input().FullName(),
			d.Call, d.call.Input().FullName())
	}
	d.SlowPath = nameOf(m)
	return nil
}

// Settle notes what carries the key, now that the profile is known. Its error says what the server's description of
// the method does not allow for: an identity that is not in the response, or a profile whose keys are in a field that
// the request lacks.
func (d *Draft) Settle() error {
	output := d.call.Output()
	if d.IdentityPointer == "" {
		return fmt.Errorf("nothing in %s, which %s responds with, could tell one created thing from another, and the "+
			"probe needs that: "+
			"choose another method, or say what does with --identity; it has %s", output.FullName(), d.Call, fieldsOf(output))
	}
	if err := leadsInto(output, d.IdentityPointer); err != nil {
		return err
	}
	switch {
	case d.Profile == aip155 && d.KeyField == "":
		return fmt.Errorf("by profile %s the request carries its key in a field request_id, and %s has none", aip155,
			d.call.Input().FullName())
	case d.Profile == aip155:
		d.notef("The request has a field %s: the key goes there, as AIP-155 has it. For a service that takes keys in "+
			"metadata write profile: ietf.", d.KeyField)
	case d.KeyField != "":
		d.notef("The request has a field %s, which is left out: by profile %s the key is in the metadata. For the "+
			"field write profile: %s.", d.KeyField, d.Profile, aip155)
	}
	return nil
}

// nameOf returns a method's name as recipes write it.
func nameOf(m protoreflect.MethodDescriptor) string {
	return string(m.Parent().FullName()) + "/" + string(m.Name())
}

// isStream reports whether a method is a streaming one.
func isStream(m protoreflect.MethodDescriptor) bool {
	return m.IsStreamingClient() || m.IsStreamingServer()
}

// methods returns all methods, ordered by the names of their services.
func (s Service) methods() (all []protoreflect.MethodDescriptor) {
	for _, of := range s.Offers {
		for i := range of.Methods().Len() {
			all = append(all, of.Methods().Get(i))
		}
	}
	return all
}

// find returns the method of a name; without a name it is inferred if only one can create a resource.
func (s Service) find(name string) (protoreflect.MethodDescriptor, error) {
	plain := strings.TrimPrefix(name, "/")
	if dot := strings.LastIndexByte(plain, '.'); dot > 0 && !strings.Contains(plain, "/") {
		plain = plain[:dot] + "/" + plain[dot+1:] // as descriptors and grpcurl have it
	}
	var found []protoreflect.MethodDescriptor
	for _, m := range s.methods() {
		if name != "" && (nameOf(m) == plain || string(m.Name()) == plain) {
			found = append(found, m)
		}
	}
	if name == "" {
		found = slices.DeleteFunc(s.methods(),
			func(m protoreflect.MethodDescriptor) bool { return isStream(m) || rank(m) == reads })
	}
	switch {
	case len(found) == 1 && isStream(found[0]):
		return nil, fmt.Errorf("%s is a streaming method, but keys work with unary methods only: choose another", nameOf(found[0]))
	case len(found) == 1:
		return found[0], nil
	}
	return nil, s.unknown(name, len(found) > 0)
}

// unknown returns an error that lists the methods to choose from.
func (s Service) unknown(name string, several bool) error {
	all := slices.DeleteFunc(s.methods(), isStream)
	if len(all) == 0 && len(s.Undescribed) == 0 {
		return errors.New("the server has no unary method, but keys work with unary methods only")
	}
	slices.SortStableFunc(all, func(a, b protoreflect.MethodDescriptor) int { return cmp.Compare(rank(a), rank(b)) })
	problem := "choose the method that creates something: --method"
	var names, lines []string
	for _, m := range all {
		names = append(names, string(m.Name()))
		if len(lines) < shownOperations {
			lines = append(lines, nameOf(m))
		}
	}
	if more := len(all) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	for _, name := range s.Undescribed {
		lines = append(lines, fmt.Sprintf("%q has some too, which its reflection does not describe", name))
	}
	switch near := yamlfile.Nearest(name[strings.LastIndexAny(name, "/.")+1:], names); {
	case several && name != "":
		problem = fmt.Sprintf("several services have a method %s: write its full name", name)
	case name != "":
		problem = fmt.Sprintf("the server has no method %s", name)
		if near != "" {
			problem += "; did you mean " + nameOf(all[slices.Index(names, near)]) + "?"
		}
	}
	return fmt.Errorf("%s\n  %s", problem, strings.Join(lines, "\n  "))
}

// What methods are likely to do, the best for a recipe first.
const (
	creates = iota
	changes
	reads
)

// rank returns how likely a method is to create something, by its name. A method that is declared to have no side
// effects creates nothing.
func rank(m protoreflect.MethodDescriptor) int {
	if o, ok := m.Options().(*descriptorpb.MethodOptions); ok &&
		o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
		return reads
	}
	one := func(verbs ...string) bool {
		return slices.ContainsFunc(verbs, func(verb string) bool { return begins(string(m.Name()), verb) })
	}
	switch {
	case one("Create", "Charge", "Pay", "Place", "Add", "Insert", "Make", "New", "Submit", "Send", "Book", "Order",
		"Transfer", "Open", "Issue",
		"Capture", "Refund", "Purchase", "Register", "Start", "Post", "Authorize"):
		return creates
	case one("Get", "List", "Search", "Find", "Query", "Read", "Check", "Describe", "Count", "Lookup", "Fetch",
		"Watch", "BatchGet", "Is", "Has"):
		return reads
	}
	return changes
}

// begins reports whether a name begins with a word: Created does not begin with Create.
func begins(name, word string) bool {
	rest, ok := strings.CutPrefix(name, word)
	return ok && (rest == "" || strings.ToLower(rest[:1]) != rest[:1] || rest[0] == '_')
}
