package grpcsafe

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// UnaryServerInterceptor returns an interceptor that runs the handler at most once for each key. It passes on,
// unchanged, calls without a key and calls of methods that have no side effects (idempotency_level = NO_SIDE_EFFECTS,
// health checks, reflection).
//
// Place it after authentication in the chain, so that a replay is authenticated like any call, and before
// interceptors that must not see a retry. A handler's header is sent only after the handler has returned:
// grpc.SendHeader marks it as complete. If an earlier interceptor has sent a header, the header of the answer is sent
// with the trailer. grpc.SetSendCompressor and grpc.ClientSupportedCompressors need grpc-go's own stream and fail
// inside the handler; call them in an earlier interceptor.
//
// It panics if scope is nil or if o.Validate returns an error.
func UnaryServerInterceptor(g *retrysafe.Guard, scope rpcsafe.ScopeFunc,
	o rpcsafe.Options,
) grpc.UnaryServerInterceptor {
	if scope == nil {
		panic("grpcsafe: UnaryServerInterceptor needs a ScopeFunc; ScopeNone() says that all callers share one scope")
	}
	s := rpcsafe.NewServer(g, o)
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		message, _ := asProto(request)
		call := rpcsafe.Call{
			Method: info.FullMethod, Metadata: incoming(ctx), Request: message, Safe: rpcsafe.HasNoSideEffects(info.FullMethod),
		}
		var response any
		reply, guarded := s.Serve(ctx, call, scope, func(ctx context.Context, r *rpcsafe.Run) (reply rpcsafe.Reply) {
			response, reply = serve(ctx, r, request, handler)
			return reply
		})
		if !guarded {
			return handler(ctx, request)
		}
		return answer(ctx, reply, response)
	}
}

// StreamServerInterceptor returns an interceptor that refuses streams that bring a key with UNIMPLEMENTED if
// o.RejectUnsupported is set. It passes on all other streams: streams are not guarded. It panics if o.Validate
// returns an error.
func StreamServerInterceptor(o rpcsafe.Options) grpc.StreamServerInterceptor {
	s := rpcsafe.NewServer(nil, o)
	return func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if reply, refused := s.Unguarded(incoming(stream.Context())); refused {
			stream.SetTrailer(toMD(reply.Trailer))
			return status.FromProto(reply.Status).Err()
		}
		return handler(server, stream)
	}
}

// CheckServer returns an error if o.Methods or o.Required name a method that the server does not have: it is misspelt, and
// guards nothing. Call it when all services are registered, before Serve, with the server's GetServiceInfo.
func CheckServer(o rpcsafe.Options, services map[string]grpc.ServiceInfo) error {
	var known []string
	for service, info := range services {
		for _, m := range info.Methods {
			known = append(known, service+"/"+m.Name)
		}
	}
	slices.Sort(known)
	return o.CheckMethods(known)
}

// serve calls the handler with a stream that holds its header and trailer back.
func serve(ctx context.Context, r *rpcsafe.Run, request any, handler grpc.UnaryHandler) (response any,
	reply rpcsafe.Reply,
) {
	held := &heldStream{next: grpc.ServerTransportStreamFromContext(ctx)}
	r.Metadata(held.metadata)
	response, err := handler(grpc.NewContextWithServerTransportStream(ctx, held), request)
	reply.Header, reply.Trailer = held.end()
	if err != nil {
		reply.Status = statusOf(err).Proto()
		return nil, reply
	}
	reply.Message, _ = asProto(response)
	return response, reply
}

// answer sends a reply. response is the handler's, for answers that are not protobuf messages.
func answer(ctx context.Context, reply rpcsafe.Reply, response any) (any, error) {
	header, trailer := toMD(reply.Header), toMD(reply.Trailer)
	if grpc.SetHeader(ctx, header) != nil { // an earlier interceptor has sent it
		trailer = metadata.Join(header, trailer)
	}
	if err := grpc.SetTrailer(ctx, trailer); err != nil {
		return nil, err
	}
	switch {
	case reply.Status != nil:
		return nil, status.FromProto(reply.Status).Err()
	case reply.Message != nil:
		return reply.Message, nil
	}
	return response, nil
}

// statusOf returns the status that the server would send for a handler's error.
func statusOf(err error) *status.Status {
	if s, ok := status.FromError(err); ok {
		return s
	}
	return status.FromContextError(err)
}

// NewResult returns the Result to store for an answer, for a ReconcileFunc or for resolving a key by hand: it stands
// for the status of err, or for reply if err is nil. It returns an error if reply cannot be encoded.
func NewResult(reply proto.Message, err error) (retrysafe.Result, error) {
	if err != nil {
		return rpcsafe.NewResult(rpcsafe.Reply{Status: statusOf(err).Proto()})
	}
	return rpcsafe.NewResult(rpcsafe.Reply{Message: reply})
}

func asProto(v any) (proto.Message, bool) {
	switch m := v.(type) {
	case proto.Message:
		return m, true
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(m), true
	}
	return nil, false
}
