//go:build unix

package probecmd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// grpcShop is a service that is safe to retry, unless it forgets its keys. Each thing it makes has a server_id of its
// own.
type grpcShop struct {
	testpb.UnimplementedTestServiceServer
	address string // host:port
	counts  string // the URL of what it has made
	forgets bool
	made    atomic.Int64

	mu    sync.Mutex
	known map[string]*grpcRecord
}

// grpcRecord is what is known of a key. It can be read when done is closed.
type grpcRecord struct {
	request string
	done    chan struct{}
	out     *testpb.SimpleResponse
	err     error
}

// grpcServed says how a shop is served.
type grpcServed struct {
	forgets, hidden bool // it forgets its keys; it has no reflection
	tls             *tls.Config
}

func newGRPCShop(t *testing.T, how grpcServed) *grpcShop {
	t.Helper()
	s := &grpcShop{forgets: how.forgets, known: map[string]*grpcRecord{}}
	var options []grpc.ServerOption
	if how.tls != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(how.tls)))
	}
	server := grpc.NewServer(options...)
	testpb.RegisterTestServiceServer(server, s)
	if !how.hidden {
		reflection.Register(server)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	counter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			http.Error(w, "this belongs to another caller", http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, `{"made": %d}`, s.made.Load())
	}))
	s.counts = counter.URL + "/count"
	t.Cleanup(func() {
		counter.Close()
		server.Stop()
		if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return s
}

// UnaryCall makes something; CacheableUnaryCall takes its time for it.
func (s *grpcShop) UnaryCall(ctx context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	return s.once(ctx, "make", in, 0)
}

func (s *grpcShop) CacheableUnaryCall(ctx context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	return s.once(ctx, "make slowly", in, time.Second)
}

// once does what a key is for once. A call that finds another one outstanding waits for it.
func (s *grpcShop) once(ctx context.Context, what string, in *testpb.SimpleRequest,
	takes time.Duration,
) (*testpb.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	caller, key := strings.Join(md.Get("authorization"), ""), strings.Join(md.Get("idempotency-key"), "")
	switch {
	case caller == "":
		return nil, status.Error(codes.Unauthenticated, "who are you?")
	case key == "" || s.forgets:
		return s.work(in, takes)
	case strings.HasPrefix(key, `"`) != strings.HasSuffix(key, `"`):
		return nil, status.Error(codes.InvalidArgument, "the key is malformed")
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(in)
	if err != nil {
		return nil, err
	}
	mine := &grpcRecord{request: what + string(raw), done: make(chan struct{})}
	s.mu.Lock()
	r := cmp.Or(s.known[caller+key], mine)
	s.known[caller+key] = r
	s.mu.Unlock()
	switch {
	case r == mine:
		r.out, r.err = s.work(in, takes)
		close(r.done)
		return r.out, r.err
	case r.request != mine.request:
		return nil, status.Error(codes.FailedPrecondition, "the key was used with another request")
	}
	<-r.done
	return r.out, errors.Join(r.err, grpc.SetHeader(ctx, metadata.Pairs("idempotent-replayed", "true")))
}

// work knows nothing of keys. It ends with the code that the request asks for.
func (s *grpcShop) work(in *testpb.SimpleRequest, takes time.Duration) (*testpb.SimpleResponse, error) {
	time.Sleep(takes)
	code := codes.Code(in.GetResponseStatus().GetCode())
	if code == codes.NotFound {
		return nil, status.Error(code, "there is no such customer")
	}
	id := fmt.Sprintf("payment-%d", s.made.Add(1))
	if code != codes.OK {
		return nil, status.Error(code, "the connection to the database broke")
	}
	return &testpb.SimpleResponse{ServerId: id}, nil
}

// grpcRecipe writes a recipe for a service, with more lines, and returns its name.
func grpcRecipe(t *testing.T, target, more string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "grpc.yaml")
	text := "target: " + target + `
grpc:
  method: grpc.testing.TestService/UnaryCall
  request: '{"responseSize": {{amount}}}'
identity: {pointer: /serverId}
credentials:
  a: {authorization: "Bearer ${PROBE_A}"}
  b: {authorization: Bearer bob}
variants:
  slow: {method: grpc.testing.TestService/CacheableUnaryCall}
  failing: {request: '{"responseSize": {{amount}}, "responseStatus": {"code": 5}}'}
  broken: {request: '{"responseSize": {{amount}}, "responseStatus": {"code": 13}}'}
` + more
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
