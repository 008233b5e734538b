package connectsafe_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/retrysafe/retrysafe/connectsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/rpcsafe/rpctest"
)

func TestRules(t *testing.T) { runRules(t, func(h http.Handler) http.Handler { return h }) }

// runRules runs the rules over each protocol and codec, with around further out.
func runRules(t *testing.T, around func(http.Handler) http.Handler) {
	for name, protocol := range speakers() {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, func(t *testing.T, s rpctest.Server) rpctest.Client {
				return connectTo(t, serve(t, around(handlerOf(s))), s.Client, protocol)
			})
		})
	}
}

func handlerOf(s rpctest.Server) http.Handler {
	options := []connect.HandlerOption{
		connect.WithRecover(func(_ context.Context, _ connect.Spec, _ http.Header, p any) error {
			return connect.NewError(connect.CodeInternal, fmt.Errorf("%v", p))
		}),
	}
	if s.Guard != nil {
		scope := connectsafe.ScopeHeader("Caller")
		if s.Scope != nil {
			scope = func(ctx context.Context, _ connect.AnyRequest) (string, error) { return s.Scope(ctx) }
		}
		options = append(options, connect.WithInterceptors(connectsafe.NewInterceptor(s.Guard, scope, s.Options)))
	}
	mux := http.NewServeMux()
	for _, procedure := range []string{create, get, "/shop.v1.Things/Change"} {
		mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(ctx context.Context, r *in) (*out, error) {
			call := rpctest.Call{Method: path.Base(procedure), Metadata: lower(r.Header()), Request: r.Msg}
			return respond(ctx, s.Handle(ctx, call))
		}, options...))
	}
	return mux
}

func connectTo(t *testing.T, url string, o *rpcsafe.ClientOptions, options []connect.ClientOption) rpctest.Client {
	client := h2c(t)
	if o != nil {
		options = append(options[:len(options):len(options)], connect.WithInterceptors(connectsafe.NewClientInterceptor(*o)))
	}
	return func(ctx context.Context, c rpctest.Call) (reply rpcsafe.Reply, err error) {
		r := connect.NewRequest(c.Request)
		set(r.Header(), c.Metadata)
		response, err := connect.NewClient[shoppb.CreateRequest, shoppb.Thing](client, url+"/shop.v1.Things/"+c.Method, options...).
			CallUnary(ctx, r)
		if err == nil {
			return rpcsafe.Reply{Message: response.Msg, Header: lower(response.Header()), Trailer: lower(response.Trailer())}, nil
		}
		reply.Status = &status.Status{Code: int32(connect.CodeOf(err))}
		if e := new(connect.Error); errors.As(err, &e) {
			reply.Status.Message, reply.Header, reply.Trailer = e.Message(), lower(e.Meta()), lower(e.Meta())
			for _, d := range e.Details() {
				reply.Status.Details = append(reply.Status.Details,
					&anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
			}
		}
		return reply, err
	}
}

// respond returns what a handler returns for a reply.
func respond(ctx context.Context, reply rpcsafe.Reply) (*out, error) {
	if reply.Status == nil {
		response := connect.NewResponse(reply.Message.(*shoppb.Thing))
		set(response.Header(), reply.Header)
		set(response.Trailer(), reply.Trailer)
		return response, nil
	}
	e := connect.NewError(connect.Code(reply.Status.Code), errors.New(reply.Status.Message))
	for _, packed := range reply.Status.Details {
		d, err := connect.NewErrorDetail(packed)
		if err != nil {
			return nil, err
		}
		e.AddDetail(d)
	}
	info, _ := connect.CallInfoForHandlerContext(ctx)
	set(info.ResponseHeader(), reply.Header)
	set(e.Meta(), reply.Trailer)
	return nil, fmt.Errorf("create: %w", e)
}

func set(h http.Header, md rpcsafe.Metadata) {
	for name, values := range md {
		h[http.CanonicalHeaderKey(name)] = values
	}
}

func lower(h http.Header) rpcsafe.Metadata {
	md := rpcsafe.Metadata{}
	for name, values := range h {
		md[strings.ToLower(name)] = values
	}
	return md
}
