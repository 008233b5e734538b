package grpcsafe

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/rpcsafe"
)

// Client makes the unary calls of gRPC channels safe to retry, and makes those of its journal again after a restart. A
// program without a journal needs UnaryClientInterceptor only.
//
// A Client is safe for concurrent use.
type Client struct{ shared *rpcsafe.Client }

// NewClient returns a Client. It panics if o.Validate returns an error.
func NewClient(o rpcsafe.ClientOptions) *Client { return &Client{rpcsafe.NewClient(o)} }

// UnaryClientInterceptor returns the interceptor of a Client with these options.
func UnaryClientInterceptor(o rpcsafe.ClientOptions) grpc.UnaryClientInterceptor {
	return NewClient(o).Intercept
}

// Intercept is the grpc.UnaryClientInterceptor that makes calls safe to retry, and retries them. A call gets a key,
// one for each intent, which all attempts share; its request is copied once and sent as it was each time. Retries
// below, by the channel's service config or those that grpc-go makes by itself, have the same key.
//
// The key is, in this order: the one that the call has; that of client.WithKey or client.WithIntent; inside an attempt
// of a Guard the child key, see client.WithOperation; a new one. What an answer means is in the table of docs/grpc.md.
// If it is unknown whether the operation ran, the error is a *client.OutcomeUnknownError: there is never a second key
// for the same intent. status.FromError finds the code of the last attempt in it.
//
// With a journal, a call stays in it until it returns, or until it is confirmed: see client.WithConfirm.
func (c *Client) Intercept(
	ctx context.Context, method string, request, response any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	if !c.shared.Gives(method, rpcsafe.HasNoSideEffects(method)) {
		return invoke(ctx, method, request, response, cc, opts...)
	}
	message, _ := asProto(request)
	md, _ := metadata.FromOutgoingContext(ctx)
	call := rpcsafe.Outgoing{Method: method, Target: cc.Target(), Metadata: fromMD(md), Request: message}
	return c.shared.Call(ctx, call, func(ctx context.Context, copied proto.Message, key string) (rpcsafe.Reply, error) {
		var header, trailer metadata.MD
		if key != "" {
			md := md.Copy()
			md.Set(c.shared.KeyHeader(), key)
			ctx = metadata.NewOutgoingContext(ctx, md)
		}
		sent := request
		if copied != nil {
			sent = copied
		}
		err := invoke(ctx, method, sent, response, cc,
			append(opts[:len(opts):len(opts)], grpc.Header(&header), grpc.Trailer(&trailer))...)
		reply := rpcsafe.Reply{Header: fromMD(header), Trailer: fromMD(trailer)}
		if err != nil {
			reply.Status, reply.Begun = status.Convert(err).Proto(), len(header) > 0
		}
		return reply, err
	})
}

// Resumed is a call of the journal that was made again. Response is a message of the method's type; Err is the call's
// error.
type Resumed = rpcsafe.Resumed

// Resume makes the calls to cc's target again that the journal has pending, with the same key and the same message,
// and hands what comes of each to result. cc must have the Client's Intercept, and the target that it had before. Call
// Resume after a start, and then from time to time. When result returns nil, a final answer is forgotten, also one
// that is an error; if result returns an error, or the process ends, the call is resumed again, and the server gives
// the same answer again. Calls that this Client is making right now are left alone.
//
// Options.ResumeConcurrency calls are made at once, the oldest first, and result is called by as many goroutines at
// once. Calls past the horizon are not made: result gets client.ErrOutcomeUnknown once, and the journal keeps them for
// people. A method whose descriptor is not linked into the program cannot be called: result gets an error, and the
// journal keeps it.
//
// Resume returns the journal's error or the context's, joined with those of result. Without a Journal it does nothing.
func (c *Client) Resume(ctx context.Context, cc *grpc.ClientConn,
	result func(ctx context.Context, r Resumed) error,
) error {
	return c.shared.Resume(ctx, cc.Target(),
		func(ctx context.Context, method string, in, out proto.Message, md rpcsafe.Metadata) error {
			return cc.Invoke(metadata.NewOutgoingContext(ctx, toMD(md)), method, in, out)
		}, result)
}
