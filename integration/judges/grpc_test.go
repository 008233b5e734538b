package judges

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/grpcsafe"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// interopCases are gRPC's interoperability tests, but for those of credentials that only Google's clouds have, of load
// balancing, and of endurance.
var interopCases = []interopCase{
	{"empty_unary", onService(interop.DoEmptyUnaryCall)},
	{"large_unary", onService(interop.DoLargeUnaryCall)},
	{"status_code_and_message", onService(interop.DoStatusCodeAndMessage)},
	{"special_status_message", onService(interop.DoSpecialStatusMessage)},
	{"custom_metadata", onService(interop.DoCustomMetadata)},
	{"client_streaming", onService(interop.DoClientStreaming)},
	{"server_streaming", onService(interop.DoServerStreaming)},
	{"ping_pong", onService(interop.DoPingPong)},
	{"empty_stream", onService(interop.DoEmptyStream)},
	{"timeout_on_sleeping_server", onService(interop.DoTimeoutOnSleepingServer)},
	{"cancel_after_begin", onService(interop.DoCancelAfterBegin)},
	{"cancel_after_first_response", onService(interop.DoCancelAfterFirstResponse)},
	{"unimplemented_method", func(_ context.Context, cc *grpc.ClientConn, _ testgrpc.TestServiceClient) {
		interop.DoUnimplementedMethod(context.Background(), cc)
	}},
	{"unimplemented_service", func(ctx context.Context, cc *grpc.ClientConn, _ testgrpc.TestServiceClient) {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(cc))
	}},
}

type interopCase struct {
	name string
	run  func(ctx context.Context, cc *grpc.ClientConn, tc testgrpc.TestServiceClient)
}

// shortInterop is how many of them run in make test: the unary ones.
const shortInterop = 5

func onService(run func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption),
) func(context.Context, *grpc.ClientConn, testgrpc.TestServiceClient) {
	return func(ctx context.Context, _ *grpc.ClientConn, tc testgrpc.TestServiceClient) { run(ctx, tc) }
}

func grpcInterop() suite {
	const keys = "keys"
	return suite{
		id: "grpc", name: "gRPC's interoperability tests", license: "Apache-2.0",
		source:  "https://github.com/grpc/grpc-go/tree/master/interop",
		version: moduleVersion("go.mod", "google.golang.org/grpc"),
		ways: []way{
			{name: "directly", run: func(t *testing.T, short bool) outcome {
				return runInterop(t, short, serveInterop(t), "")
			}},
			{name: "client and server with grpcsafe", run: func(t *testing.T, short bool) outcome {
				return runInterop(t, short, serveInterop(t, guardedInterop()...), keys)
			}},
			{name: "grpcsafe, each unary answer a replay", run: func(t *testing.T, short bool) outcome {
				return runInterop(t, short, serveInterop(t, append([]grpc.UnaryServerInterceptor{callTwice}, guardedInterop()...)...), "")
			}},
			{name: "the proxy", long: true, run: func(t *testing.T, short bool) outcome {
				config := "upstream: h2c://" + serveInterop(t) + "\nstore: 'memory:'\nh2c: true\n"
				return runInterop(t, short, startProxy(t, config), "")
			}},
		},
		compared: true, short: true,
		reasons: []reason{{
			"client and server with grpcsafe", "status_code_and_message|special_status_message",
			"The suite's handler fails with the code UNKNOWN, of which nobody can say whether the work was done. The client " +
				"says so: its error is a client.OutcomeUnknownError, and the server's status is inside it.",
		}},
	}
}

func serveInterop(t *testing.T, interceptors ...grpc.UnaryServerInterceptor) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(interceptors...))
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// guardedInterop are the interceptor that is judged, and one that lets no key run a handler twice.
func guardedInterop() []grpc.UnaryServerInterceptor {
	var run sync.Map
	once := func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		if _, again := run.LoadOrStore(strings.Join(md.Get(keyHeader), ""), true); again {
			return nil, errRunTwice
		}
		return handler(ctx, r)
	}
	guarded := grpcsafe.UnaryServerInterceptor(newGuard(), rpcsafe.ScopeNone(), rpcsafe.Options{})
	return []grpc.UnaryServerInterceptor{guarded, once}
}

// newGuard returns a Guard that gives handlers no deadline of its own: the suite of Connect would take it for the
// client's.
func newGuard() *retrysafe.Guard {
	return retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{Policy: retrysafe.Policy{Timeout: -1}})
}

// callTwice calls the interceptors after it twice with the same new key. The client gets the second answer.
func callTwice(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	md = metadata.Join(md, metadata.Pairs(keyHeader, rand.Text()))
	ctx = metadata.NewIncomingContext(ctx, md)
	handler(grpc.NewContextWithServerTransportStream(ctx, discarded{grpc.ServerTransportStreamFromContext(ctx)}), request)
	return handler(ctx, request)
}

// discarded is the stream of a call whose answer the client does not get.
type discarded struct{ grpc.ServerTransportStream }

func (discarded) SetHeader(metadata.MD) error  { return nil }
func (discarded) SendHeader(metadata.MD) error { return nil }
func (discarded) SetTrailer(metadata.MD) error { return nil }

// runInterop runs each case in a process of its own, which a failure ends. A case that fails is repeated:
// cancel_after_begin fails once in thirty times against gRPC's own server, which may answer before it is canceled.
func runInterop(t *testing.T, short bool, address, keys string) (all outcome) {
	t.Helper()
	for i, c := range interopCases {
		if short && i == shortInterop {
			break
		}
		said := ""
		for range 3 {
			cmd := exec.CommandContext(t.Context(), testProgram(t))
			cmd.Env = append(os.Environ(), roleVariable+"="+strings.Join([]string{interopRole, c.name, address, keys}, " "))
			out, err := cmd.CombinedOutput()
			if said = ""; err == nil {
				break
			}
			said = fmt.Sprintf("%v: %s", err, strings.TrimSpace(string(out)))
		}
		all.add(c.name, said)
	}
	return all
}

// playInterop runs one case.
func playInterop(name, address, keys string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if keys != "" {
		options = append(options, grpc.WithUnaryInterceptor(grpcsafe.UnaryClientInterceptor(rpcsafe.ClientOptions{})))
	}
	cc, err := grpc.NewClient(address, options...)
	if err != nil {
		return err
	}
	defer cc.Close()
	i := slices.IndexFunc(interopCases, func(c interopCase) bool { return c.name == name })
	interopCases[i].run(ctx, cc, testgrpc.NewTestServiceClient(cc))
	return nil
}
