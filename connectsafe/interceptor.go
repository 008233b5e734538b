package connectsafe

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// NewInterceptor returns an interceptor that runs a unary handler at most once for each key. It passes on, unchanged,
// calls without a key and calls of methods that have no side effects (idempotency_level = NO_SIDE_EFFECTS, health
// checks, reflection). Streams are not guarded: they are passed on too, except that streams with a key are refused if
// o.RejectUnsupported is set.
//
// Place it after authentication in the chain, so that a replay is authenticated like any call. The response of a
// replay is a message with the content of the first one: earlier interceptors must read it as a proto.Message, not as
// its generated type.
//
// The same key sent over another protocol or with another codec is the same key. Responses in JSON are encoded by
// protojson for each answer: their meaning is the same, their bytes may differ.
//
// It panics if scope is nil or if o.Validate returns an error.
func NewInterceptor(g *retrysafe.Guard, scope ScopeFunc, o rpcsafe.Options) connect.Interceptor {
	if scope == nil {
		panic("connectsafe: NewInterceptor needs a ScopeFunc; ScopeNone() says that all callers share one scope")
	}
	return &interceptor{rpcsafe.NewServer(g, o), scope}
}

type interceptor struct {
	server *rpcsafe.Server
	scope  ScopeFunc
}

// WrapUnary implements connect.Interceptor.
func (i *interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		spec := request.Spec()
		if spec.IsClient {
			return next(ctx, request)
		}
		message, _ := request.Any().(proto.Message)
		call := rpcsafe.Call{Method: spec.Procedure, Metadata: request.Header().Values, Request: message, Safe: isSafe(spec)}
		scope := func(ctx context.Context) (string, error) { return i.scope(ctx, request) }
		var response connect.AnyResponse
		reply, guarded := i.server.Serve(ctx, call, scope, func(ctx context.Context, r *rpcsafe.Run) (reply rpcsafe.Reply) {
			response, reply = serve(ctx, r, request, next)
			return reply
		})
		if !guarded {
			return next(ctx, request)
		}
		return answer(ctx, reply, response)
	}
}

// WrapStreamingClient implements connect.Interceptor. It changes nothing.
func (i *interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (i *interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, stream connect.StreamingHandlerConn) error {
		if reply, refused := i.server.Unguarded(stream.RequestHeader().Values); refused {
			return errorOf(reply)
		}
		return next(ctx, stream)
	}
}

func isSafe(spec connect.Spec) bool {
	return spec.IdempotencyLevel == connect.IdempotencyNoSideEffects || rpcsafe.HasNoSideEffects(spec.Procedure)
}

// serve calls the handler and collects its answer, header and trailer.
func serve(ctx context.Context, r *rpcsafe.Run, request connect.AnyRequest,
	next connect.UnaryFunc,
) (connect.AnyResponse, rpcsafe.Reply) {
	info, _ := connect.CallInfoForHandlerContext(ctx)
	earlier := takeMetadata(info) // what earlier interceptors have set is not a part of the answer
	r.Metadata(func() (header, trailer rpcsafe.Metadata) { return metadataOf(info) })
	response, err := next(ctx, request)
	reply := rpcsafe.Reply{}
	reply.Header, reply.Trailer = metadataOf(info)
	earlier.restore(info) // without the handler's, which connect would send a second time
	if err != nil {
		reply.Status = statusOf(err)
		reply.Trailer = joined(reply.Trailer, metaOf(err))
		return nil, reply
	}
	reply.Message, _ = response.Any().(proto.Message)
	reply.Header = joined(reply.Header, fromHeader(response.Header()))
	reply.Trailer = joined(reply.Trailer, fromHeader(response.Trailer()))
	return response, reply
}

// answer sends a reply. response is the handler's; it is sent if it still is the answer.
func answer(ctx context.Context, reply rpcsafe.Reply, response connect.AnyResponse) (connect.AnyResponse, error) {
	if reply.Status != nil {
		if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
			setHeader(info.ResponseHeader(), reply.Header)
		}
		return nil, errorOf(reply)
	}
	if reply.Message != nil && (response == nil || response.Any() != any(reply.Message)) {
		exact, err := rpcsafe.NewExact(reply.Message)
		if err != nil {
			return nil, connect.NewError(connect.CodeInternal, err)
		}
		response = connect.NewResponse(exact)
	}
	setHeader(response.Header(), reply.Header)
	setHeader(response.Trailer(), reply.Trailer)
	return response, nil
}
