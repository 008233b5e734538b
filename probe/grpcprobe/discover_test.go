package grpcprobe_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/grpcprobe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// What a server has is told by either version of reflection, with its methods and messages, and nothing is made.
func TestServices(t *testing.T) {
	for name, how := range map[string]served{"both": {}, "v1": {noAlpha: true}, "v1alpha": {noV1: true}} {
		s, address := open(t, how)
		all, undescribed, err := grpcprobe.Services(t.Context(), grpcprobe.Server{Target: address})
		if err != nil || len(all) != 1 || len(undescribed) != 0 {
			t.Fatalf("%s: %v, %v, %v", name, all, undescribed, err)
		}
		create := all[0].Methods().ByName("Create")
		if all[0].FullName() != "shop.v1.Things" || create == nil ||
			create.Input().Fields().ByName("due_at").Message().FullName() != "google.protobuf.Timestamp" {
			t.Errorf("%s: %v", name, all[0])
		}
		if n := s.effects.Load(); n != 0 {
			t.Errorf("%s: %d things made", name, n)
		}
	}
}

// A service without a description does not hide the others. Seen to fail with its error taken for the server's.
func TestAServiceThatIsNotDescribed(t *testing.T) {
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "by.Hand", HandlerType: (*any)(nil)}, 0)
	reflection.Register(server)
	all, undescribed, err := grpcprobe.Services(t.Context(), grpcprobe.Server{Target: serve(t, server)})
	if err != nil || len(all) != 0 || len(undescribed) != 1 || undescribed[0] != "by.Hand" {
		t.Errorf("%v, %v, %v", all, undescribed, err)
	}
}

// A server may tell only those what it has that say who they are: in metadata of the caller or of the call. Seen to
// fail with the metadata of the call left out of the questions.
func TestReflectionIsAskedWithMetadata(t *testing.T) {
	server := grpc.NewServer(grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
		handler grpc.StreamHandler,
	) error {
		if len(metadata.ValueFromIncomingContext(stream.Context(), "user")) != 1 {
			return status.Error(codes.Unauthenticated, "who are you?")
		}
		return handler(srv, stream)
	}))
	reflection.Register(server)
	at := grpcprobe.Server{Target: serve(t, server)}
	if _, _, err := grpcprobe.Services(t.Context(), at); err == nil ||
		!strings.Contains(err.Error(), "UNAUTHENTICATED: who are you?") {
		t.Errorf("undescribed: %v", err)
	}
	at.Metadata = []wire.HeaderLine{{Name: "user", Value: "alice"}}
	if _, _, err := grpcprobe.Services(t.Context(), at); err != nil {
		t.Errorf("alice: %v", err)
	}
	for name, change := range map[string]func(*grpcprobe.Recipe){
		"of the caller": func(r *grpcprobe.Recipe) { r.A = at.Metadata },
		"of the call":   func(r *grpcprobe.Recipe) { r.Call.Metadata = at.Metadata },
		"of both":       func(r *grpcprobe.Recipe) { r.A, r.Call.Metadata = at.Metadata, at.Metadata },
	} {
		r := grpcprobe.Recipe{Target: at.Target, Call: grpcprobe.Call{Method: "shop.v1.Things/Create"}, Identity: "/id"}
		change(&r)
		// there is no such service
		if _, err := grpcprobe.Run(t.Context(), r, probe.Options{}); !errors.Is(err, grpcprobe.ErrRecipe) {
			t.Errorf("metadata %s: %v", name, err)
		}
	}
}

// Errors say what may be the matter, and what to do.
func TestWhyAServerCannotBeAsked(t *testing.T) {
	https := httptest.NewUnstartedServer(http.NotFoundHandler())
	https.EnableHTTP2 = true
	https.StartTLS()
	t.Cleanup(https.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	_, clear := open(t, served{})
	_, hidden := open(t, served{noV1: true, noAlpha: true})
	_, secret := open(t, served{tls: &tls.Config{Certificates: https.TLS.Certificates}})
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	trusting := https.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	for _, c := range []struct {
		name string
		at   grpcprobe.Server
		says []string
	}{
		{"no reflection", grpcprobe.Server{Target: hidden}, []string{"does not offer reflection", "reflection.Register"}},
		{
			"no server",
			grpcprobe.Server{Target: "127.0.0.1:1"},
			[]string{"target 127.0.0.1:1: nothing answers at this address", "check that the server is running"},
		},
		{"TLS to one in the clear", grpcprobe.Server{Target: clear, TLS: secure}, []string{"does not use TLS", "grpc://"}},
		{"in the clear to TLS", grpcprobe.Server{Target: secret}, []string{"requires TLS", "grpcs://"}},
		{
			"a stranger's certificate",
			grpcprobe.Server{Target: secret, TLS: secure},
			[]string{"not trusted", "SSL_CERT_FILE", "x509"},
		},
		{"HTTP/1.1", grpcprobe.Server{Target: strings.TrimPrefix(plain.URL, "http://")}, []string{"an HTTP/1.1 server answers"}},
		{
			"HTTP/2",
			grpcprobe.Server{Target: strings.TrimPrefix(https.URL, "https://"), TLS: trusting},
			[]string{"an HTTP server answers", "404"},
		},
		{"silence", grpcprobe.Server{Target: mute.Addr().String()}, []string{"did not answer the reflection request in time"}},
	} {
		patience := time.Minute
		if c.name == "silence" {
			patience = 50 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, _, err := grpcprobe.Services(ctx, c.at)
		cancel()
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", c.name, err, part)
			}
		}
	}
}
