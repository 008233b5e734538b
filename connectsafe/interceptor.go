// Package connectsafe makes unary Connect methods safe to retry: a call with an idempotency key runs its handler at most once, and every
// retry gets the same answer, over the Connect protocol, gRPC and gRPC-Web alike.
//
//	guard := retrysafe.New(store, retrysafe.Options{})
//	path, handler := shopv1connect.NewThingsHandler(things, connect.WithInterceptors(
//		authenticate,
//		connectsafe.NewInterceptor(guard, callerOf, connectsafe.Options{}),
//	))
//	mux.Handle(path, connectsafe.TrailersOnly(handler))
//
// callerOf is a ScopeFunc: it returns whose call it is, as authenticate has put it into the context. TrailersOnly around the handler lets gRPC's own retries work with it, those of a service config.
//
// The rules are the Guard's; this package translates. grpcsafe does the same for grpc-go; records made by one are replayed by the other.
package connectsafe

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// NewInterceptor returns what stands in front of unary handlers, so that calls with a key run them at most once. Calls without a key pass
// through untouched, and so do methods with idempotency_level = NO_SIDE_EFFECTS, health checks and reflection. Streams pass, unless they
// bring a key and Options.RejectUnsupported is set.
//
// Place it inside of authentication: a replay is authenticated like any call. The response of a replay is a message with the content of the
// first one; further out, look at it through proto.Message and not as its generated type.
//
// A key is one key whatever protocol and codec it comes with. The bytes of a response in JSON are protojson's, which promises no more than
// their meaning.
//
// It panics if scope is nil or if o.Validate reports an error.
func NewInterceptor(g *retrysafe.Guard, scope ScopeFunc, o Options) connect.Interceptor {
	if scope == nil {
		panic("connectsafe: NewInterceptor needs a ScopeFunc; ScopeNone() says that all callers share one scope")
	}
	return &interceptor{rpcsafe.NewServer(g, o.shared()), scope}
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
		call := rpcsafe.Call{Method: spec.Procedure, Key: i.key(request.Header()), Request: message, Safe: isSafe(spec)}
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

// WrapStreamingClient implements connect.Interceptor. Streams pass.
func (i *interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (i *interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, stream connect.StreamingHandlerConn) error {
		if reply, refused := i.server.Unguarded(i.key(stream.RequestHeader())); refused {
			return errorOf(reply)
		}
		return next(ctx, stream)
	}
}

func (i *interceptor) key(h http.Header) []string {
	return h[http.CanonicalHeaderKey(i.server.KeyHeader())]
}

func isSafe(spec connect.Spec) bool {
	return spec.IdempotencyLevel == connect.IdempotencyNoSideEffects || rpcsafe.HasNoSideEffects(spec.Procedure)
}

// serve calls the handler.
func serve(ctx context.Context, r *rpcsafe.Run, request connect.AnyRequest, next connect.UnaryFunc) (connect.AnyResponse, rpcsafe.Reply) {
	info, _ := connect.CallInfoForHandlerContext(ctx)
	outer := setAside(info) // what was said further out is not a part of the answer
	r.Metadata(func() (header, trailer rpcsafe.Metadata) { return said(info) })
	response, err := next(ctx, request)
	reply := rpcsafe.Reply{}
	reply.Header, reply.Trailer = said(info)
	outer.putBack(info) // and no more: connect would send what the handler has set, too
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

// answer sends what the guard has decided. response is the handler's: it is sent if it is the answer.
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
