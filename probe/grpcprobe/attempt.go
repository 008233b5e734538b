package grpcprobe

import (
	"context"
	"errors"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// attempt is the one attempt that a call has. Retries by a service config can be switched off; what grpc-go calls a
// transparent retry, after a server has refused a stream, cannot. But grpc-go asks for credentials before each
// attempt, and these are given once. The second attempt ends before anything of it is sent.
type attempt struct {
	begun    atomic.Bool
	again    atomic.Bool // a second attempt was refused
	answered atomic.Bool // the server has ended the call, with a code of its own
}

var errSecondAttempt = errors.New("a call is made once")

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (a *attempt) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if a.begun.Swap(true) {
		a.again.Store(true)
		return nil, errSecondAttempt
	}
	return nil, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. There is nothing in it to hide.
func (a *attempt) RequireTransportSecurity() bool { return false }

type attemptKey struct{}

// in returns a context by which watch finds the attempt that a call belongs to.
func (a *attempt) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// watch tells codes that the server sent from those that grpc-go made up because nothing came.
type watch struct{}

var _ stats.Handler = watch{}

// HandleRPC implements stats.Handler.
func (watch) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.InTrailer); !ok {
		return
	}
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		a.answered.Store(true)
	}
}

// TagRPC implements stats.Handler.
func (watch) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (watch) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (watch) HandleConn(context.Context, stats.ConnStats) {}
