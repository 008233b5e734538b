package grpcprobe

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	v1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// Server is one that can be asked what it offers.
type Server struct {
	// Target is where it is: host:port.
	Target string
	// TLS says how to speak it to the target; nil: in the clear.
	TLS *tls.Config
	// Metadata goes with the questions: a server may answer those only that it knows. It is sent as it stands. Empty:
	// none.
	Metadata []wire.HeaderLine
}

// Services asks a server what services it has, and what their methods and messages look like; undescribed are those
// that it names and does not describe. What serves the server itself is left out: reflection, health checks and the
// like. Nothing else is called, and asking takes 15 seconds at most. It returns an error if the target cannot be
// reached or does not offer reflection, or if ctx ends.
func Services(ctx context.Context, s Server) (all []protoreflect.ServiceDescriptor, undescribed []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	conn, err := newClient(&Recipe{Target: s.Target, TLS: s.TLS}).connect()
	if err != nil {
		return nil, nil, fmt.Errorf("target %s: %w", s.Target, err)
	}
	defer func() { _ = conn.Close() }()
	var names []string
	files, err := ask(outgoing(ctx, s.Metadata), conn, func(r *reflection) (err error) {
		if names, err = r.services(); err != nil {
			return err
		}
		return r.describe(names)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("target %s: %w", s.Target, err)
	}
	for _, name := range names {
		found, _ := files.FindDescriptorByName(protoreflect.FullName(name))
		if service, ok := found.(protoreflect.ServiceDescriptor); ok {
			all = append(all, service)
		} else {
			undescribed = append(undescribed, name)
		}
	}
	return all, undescribed, nil
}

// services returns the names of the services that the server offers, without those for its own operation, such as
// reflection and health.
func (r *reflection) services() (names []string, err error) {
	answer, err := r.exchange(&v1.ServerReflectionRequest{MessageRequest: &v1.ServerReflectionRequest_ListServices{}})
	for _, s := range answer.GetListServicesResponse().GetService() {
		if !isOfTheServer(s.GetName()) {
			names = append(names, s.GetName())
		}
	}
	slices.Sort(names)
	return names, err
}

// isOfTheServer reports services that come with gRPC itself, and make nothing.
func isOfTheServer(service string) bool {
	for _, prefix := range []string{"grpc.reflection.", "grpc.health.", "grpc.channelz.", "envoy."} {
		if strings.HasPrefix(service, prefix) {
			return true
		}
	}
	return false
}

// describe fetches the files of the services that the server describes.
func (r *reflection) describe(services []string) error {
	for _, s := range services {
		err := r.fetch(fileOf(s))
		if _, ended := status.FromError(err); err != nil && ended {
			return err
		}
	}
	return nil
}
