package connectsafe

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/retrysafe/retrysafe/rpcsafe"
)

// Client makes the unary calls of Connect clients safe to retry, and makes those of its journal again after a restart.
// It is a connect.Interceptor for clients; streams pass it unchanged.
//
// A Client is safe for concurrent use.
type Client struct{ shared *rpcsafe.Client }

// NewClient returns a Client. It panics if o.Validate returns an error.
func NewClient(o rpcsafe.ClientOptions) *Client { return &Client{rpcsafe.NewClient(o)} }

// NewClientInterceptor returns a Client with these options as an interceptor, for programs without a journal.
func NewClientInterceptor(o rpcsafe.ClientOptions) connect.Interceptor { return NewClient(o) }

// WrapUnary implements connect.Interceptor: it makes calls safe to retry, and retries them. A call gets a key, one for
// each intent, which all attempts share; its message is copied once and sent as it was each time.
//
// The key is, in this order: the one that the call has; that of client.WithKey or client.WithIntent; inside an attempt
// of a Guard the child key, see client.WithOperation; a new one. What an answer means is in the table of docs/grpc.md.
// If it is unknown whether the operation ran, the error is a *client.OutcomeUnknownError: there is never a second key
// for the same intent. connect.CodeOf finds the code of the last attempt in it.
//
// With a journal, a call stays in it until it returns, or until it is confirmed: see client.WithConfirm.
func (c *Client) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		spec := request.Spec()
		if !spec.IsClient || !c.shared.Gives(spec.Procedure, isSafe(spec)) {
			return next(ctx, request)
		}
		message, _ := request.Any().(proto.Message)
		call := rpcsafe.Outgoing{
			Method: spec.Procedure, Target: request.Peer().Addr, Metadata: fromHeader(request.Header()), Request: message,
		}
		var response connect.AnyResponse
		err := c.shared.Call(ctx, call, func(ctx context.Context, copied proto.Message,
			key string,
		) (reply rpcsafe.Reply, err error) {
			attempt := &frozen{request, request.Any(), request.Header().Clone()}
			if copied != nil {
				attempt.message = copied
			}
			if key != "" {
				attempt.header[http.CanonicalHeaderKey(c.shared.KeyHeader())] = []string{key}
			}
			response, err = next(ctx, attempt)
			if err != nil {
				reply = rpcsafe.Reply{Status: statusOf(err), Trailer: metaOf(err), Begun: !connect.IsWireError(err)}
			}
			return reply, err
		})
		if err != nil {
			return nil, err
		}
		return response, nil
	}
}

// frozen is one attempt's request: the copy of the message, and a header of its own.
type frozen struct {
	connect.AnyRequest
	message any
	header  http.Header
}

// Any implements connect.AnyRequest.
func (f *frozen) Any() any { return f.message }

// Header implements connect.AnyRequest.
func (f *frozen) Header() http.Header { return f.header }

// WrapStreamingClient implements connect.Interceptor. Streams pass unchanged.
func (c *Client) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor. Streams pass unchanged.
func (c *Client) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// Resumed is a call of the journal that was made again. Response is a message of the method's type; Err is the call's
// error.
type Resumed = rpcsafe.Resumed

// Resume makes the calls to the host of baseURL again that the journal has pending, with the same key and the same
// message, and hands what comes of each to result. baseURL is what the generated clients were made with, such as
// "https://shop.example"; options are theirs, without this Client, which Resume adds. Call Resume after a start, and
// then from time to time. When result returns nil, a final answer is forgotten, also one that is an error; if result
// returns an error, or the process ends, the call is resumed again, and the server gives the same answer again. Calls
// that this Client is making right now are left alone.
//
// Options.ResumeConcurrency calls are made at once, the oldest first, and result is called by as many goroutines at
// once. Calls past the horizon are not made: result gets client.ErrOutcomeUnknown once, and the journal keeps them for
// people. A method whose descriptor is not linked into the program cannot be called: result gets an error, and the
// journal keeps it.
//
// Resume returns an error for a baseURL without a host, the journal's error or the context's, joined with those of
// result. Without a Journal it does nothing.
func (c *Client) Resume(
	ctx context.Context, httpClient connect.HTTPClient, baseURL string, result func(ctx context.Context, r Resumed) error,
	options ...connect.ClientOption,
) error {
	base, err := url.Parse(baseURL)
	if err != nil || base.Host == "" {
		return fmt.Errorf("connectsafe: Resume needs the URL of a server, such as https://shop.example: %q", baseURL)
	}
	return c.shared.Resume(ctx, base.Host, func(ctx context.Context, method string, in, out proto.Message,
		md rpcsafe.Metadata,
	) error {
		call := connect.NewClient[dynamicpb.Message, dynamicpb.Message](httpClient, strings.TrimSuffix(baseURL, "/")+method,
			connect.WithClientOptions(options...), connect.WithInterceptors(c),
			connect.WithResponseInitializer(func(_ connect.Spec, message any) error {
				if m, ok := message.(*dynamicpb.Message); ok {
					*m = *dynamicpb.NewMessage(out.ProtoReflect().Descriptor())
				}
				return nil
			}))
		message := dynamicpb.NewMessage(in.ProtoReflect().Descriptor())
		proto.Merge(message, in)
		request := connect.NewRequest(message)
		setHeader(request.Header(), md)
		response, err := call.CallUnary(ctx, request)
		if err == nil {
			proto.Merge(out, response.Msg)
		}
		return err
	}, result)
}
