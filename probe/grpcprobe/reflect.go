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

// describe fetches the files that describe services, and those that they import.
func describe(ctx context.Context, conn *grpc.ClientConn, services []string) (*protoregistry.Files, error) {
	var err error
	for _, method := range []string{v1.ServerReflection_ServerReflectionInfo_FullMethodName, alphaMethod} {
		var files *protoregistry.Files
		if files, err = describeBy(ctx, conn, method, services); err == nil {
			return files, nil
		}
		if status.Code(err) != codes.Unimplemented {
			break
		}
	}
	if errors.Is(err, ErrRecipe) {
		return nil, err
	}
	if status.Code(err) == codes.Unimplemented {
		return nil, errors.New("the server does not offer reflection: register grpc.reflection.v1.ServerReflection in it, at least for tests")
	}
	return nil, fmt.Errorf("ask the server for its descriptors: %s", status.Convert(err).Message())
}

const alphaMethod = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

func describeBy(ctx context.Context, conn *grpc.ClientConn, method string, services []string) (*protoregistry.Files, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return nil, err
	}
	r := &reflection{stream, map[string]*descriptorpb.FileDescriptorProto{}}
	for _, s := range services {
		if err := r.fetch(&v1.ServerReflectionRequest{MessageRequest: &v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: s}}); err != nil {
			return nil, named(s, err)
		}
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

// fetch asks for files. An answer may bring those that they import, too.
func (r *reflection) fetch(q *v1.ServerReflectionRequest) error {
	// What goes wrong with sending shows when the answer is read.
	if err := r.stream.SendMsg(q); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	answer := &v1.ServerReflectionResponse{}
	if err := r.stream.RecvMsg(answer); err != nil {
		return err
	}
	if e := answer.GetErrorResponse(); e != nil {
		return errors.New(e.GetErrorMessage())
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
			return errors.Join(fmt.Errorf("the server describes its service with %s, and does not have it", name), err)
		}
		r.files[name] = protodesc.ToFileDescriptorProto(known)
	}
}

// missing is a file that another one imports.
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
