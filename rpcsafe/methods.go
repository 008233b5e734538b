package rpcsafe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Methods is a list of methods: "shop.v1.Payments/Create" names one, "shop.v1.Payments/*" all methods of a service,
// "*" all methods.
type Methods []string

func (all Methods) validate() error {
	var errs []error
	for _, m := range all {
		service, method, ok := strings.Cut(strings.TrimPrefix(m, "/"), "/")
		if m != "*" && (!ok || service == "" || method == "" || strings.Contains(method, "/")) {
			errs = append(errs, fmt.Errorf("%q is not a method: write package.Service/Method, package.Service/*, or *", m))
		}
	}
	return errors.Join(errs...)
}

// have reports whether the list holds a method, given by its full name.
func (all Methods) have(method string) bool {
	name := strings.TrimPrefix(method, "/")
	service, _, _ := strings.Cut(name, "/")
	return slices.ContainsFunc(all, func(m string) bool {
		m = strings.TrimPrefix(m, "/")
		return m == "*" || m == name || m == service+"/*"
	})
}

// isPlumbing reports whether a method belongs to health checks or reflection, which change nothing.
func isPlumbing(method string) bool {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return service == "grpc.health.v1.Health" || strings.HasPrefix(service, "grpc.reflection.")
}

// HasNoSideEffects reports whether a method that is linked into this program was declared with
// idempotency_level = NO_SIDE_EFFECTS.
func HasNoSideEffects(method string) bool {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return false
	}
	options, ok := found.Options().(*descriptorpb.MethodOptions)
	return ok && options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}
