package grpcprobe

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	v1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// reflection asks a server for descriptors. Both versions of the service have the same messages on the wire.
type reflection struct {
	stream grpc.ClientStream
	files  map[string]*descriptorpb.FileDescriptorProto
}

// describe fetches the files that describe services, and the files that those import.
func describe(ctx context.Context, conn *grpc.ClientConn, services []string) (*protoregistry.Files, error) {
	return ask(ctx, conn, func(r *reflection) error {
		for _, s := range services {
			if err := r.fetch(fileOf(s)); err != nil {
				return named(s, err)
			}
		}
		return nil
	})
}

// ask opens reflection, has it asked for services, and fetches what their files import.
func ask(ctx context.Context, conn *grpc.ClientConn, services func(r *reflection) error) (*protoregistry.Files, error) {
	var err error
	for _, method := range []string{v1.ServerReflection_ServerReflectionInfo_FullMethodName, alphaMethod} {
		var files *protoregistry.Files
		if files, err = describedBy(ctx, conn, method, services); err == nil {
			return files, nil
		}
		if status.Code(err) != codes.Unimplemented {
			break
		}
	}
	if errors.Is(err, ErrRecipe) {
		return nil, err
	}
	return nil, unanswered(err)
}

const alphaMethod = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

// describedBy reads descriptions by one version of the reflection service. Servers offer v1, v1alpha or both.
func describedBy(ctx context.Context, conn *grpc.ClientConn, method string,
	services func(r *reflection) error,
) (*protoregistry.Files, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return nil, err
	}
	r := &reflection{stream, map[string]*descriptorpb.FileDescriptorProto{}}
	if err := services(r); err != nil {
		return nil, err
	}
	if err := r.fetchImports(); err != nil {
		return nil, err
	}
	all := &descriptorpb.FileDescriptorSet{}
	for _, f := range r.files {
		all.File = append(all.File, f)
	}
	return protodesc.FileOptions{AllowUnresolvable: true}.NewFiles(all)
}

// named says what the server was asked for when it refused.
func named(service string, err error) error {
	if _, ok := status.FromError(err); ok {
		return err // of the call, not of the service
	}
	return wrong{fmt.Errorf("service %s: %w", service, err)}
}

// fileOf returns the request for the file that defines a service.
func fileOf(service string) *v1.ServerReflectionRequest {
	return &v1.ServerReflectionRequest{MessageRequest: &v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}}
}

// fetch asks for files. An answer may bring those that they import, too.
func (r *reflection) fetch(q *v1.ServerReflectionRequest) error {
	answer, err := r.exchange(q)
	if err != nil {
		return err
	}
	for _, raw := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		f := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(raw, f); err != nil {
			return err
		}
		r.files[f.GetName()] = f
	}
	return nil
}

// exchange asks one question. An error that is no status is the server's answer to it, and the next question can be
// asked.
func (r *reflection) exchange(q *v1.ServerReflectionRequest) (*v1.ServerReflectionResponse, error) {
	// What goes wrong with sending shows when the answer is read.
	if err := r.stream.SendMsg(q); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	answer := &v1.ServerReflectionResponse{}
	if err := r.stream.RecvMsg(answer); err != nil {
		return nil, err
	}
	if e := answer.GetErrorResponse(); e != nil {
		return nil, errors.New(e.GetErrorMessage())
	}
	return answer, nil
}

// fetchImports asks until nothing is missing. Servers may leave out the well-known files, which are known here.
func (r *reflection) fetchImports() error {
	for {
		name := r.missing()
		if name == "" {
			return nil
		}
		err := r.fetch(&v1.ServerReflectionRequest{MessageRequest: &v1.ServerReflectionRequest_FileByFilename{FileByFilename: name}})
		if r.files[name] != nil {
			continue
		}
		known, unknown := protoregistry.GlobalFiles.FindFileByPath(name)
		if unknown != nil {
			return errors.Join(fmt.Errorf("the server's description of its service refers to %s, which the "+
				"server does not have", name), err)
		}
		r.files[name] = protodesc.ToFileDescriptorProto(known)
	}
}

// missing returns the name of a file that another one imports and that was not fetched yet, or "".
func (r *reflection) missing() string {
	for _, f := range r.files {
		for _, name := range f.GetDependency() {
			if r.files[name] == nil {
				return name
			}
		}
	}
	return ""
}
