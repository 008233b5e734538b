package grpcsafe_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/grpcsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/rpcsafe/rpctest"
)

func TestRules(t *testing.T) { rpctest.Run(t, serveRules) }

func serveRules(t *testing.T, s rpctest.Server) rpctest.Client {
	intercept := []grpc.UnaryServerInterceptor{recovered, pass}
	if s.Guard != nil {
		scope := s.Scope
		if scope == nil {
			scope = grpcsafe.ScopeMetadata("caller")
		}
		intercept[1] = grpcsafe.UnaryServerInterceptor(s.Guard, scope, s.Options)
	}
	address := serve(t, func(ctx context.Context, in *shoppb.CreateRequest) (proto.Message, error) {
		method, _ := grpc.Method(ctx)
		md, _ := metadata.FromIncomingContext(ctx)
		reply := s.Handle(ctx, rpctest.Call{Method: path.Base(method), Metadata: rpcsafe.Metadata(md), Request: in})
		err := errors.Join(grpc.SetHeader(ctx, metadata.MD(reply.Header)), grpc.SetTrailer(ctx, metadata.MD(reply.Trailer)))
		if err == nil && reply.Status != nil {
			err = fmt.Errorf("create: %w", status.FromProto(reply.Status).Err())
		}
		return reply.Message, err
	}, grpc.ChainUnaryInterceptor(intercept...))
	var dial []grpc.DialOption
	if s.Client != nil {
		dial = append(dial, grpc.WithUnaryInterceptor(grpcsafe.UnaryClientInterceptor(*s.Client)))
	}
	conn := connect(t, address, dial...)
	return func(ctx context.Context, c rpctest.Call) (rpcsafe.Reply, error) {
		var header, trailer metadata.MD
		out := new(shoppb.Thing)
		err := conn.Invoke(metadata.NewOutgoingContext(ctx, metadata.MD(c.Metadata)), "/shop.v1.Things/"+c.Method, c.Request, out,
			grpc.Header(&header), grpc.Trailer(&trailer))
		reply := rpcsafe.Reply{Message: out, Header: rpcsafe.Metadata(header), Trailer: rpcsafe.Metadata(trailer)}
		if err != nil {
			reply.Message, reply.Status = nil, status.Convert(err).Proto()
		}
		return reply, err
	}
}

// recovered answers a panic with its text.
func recovered(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = status.Error(codes.Internal, fmt.Sprint(p))
		}
	}()
	return handler(ctx, in)
}
