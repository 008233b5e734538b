package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"github.com/retrysafe/retrysafe"
	pb "github.com/retrysafe/retrysafe/examples/internal/paymentspb"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// The recipe that retrysafe probe init drafts for this server runs unchanged: no case fails, and without the guard
// the probe reports that retries pay twice. Seen to fail with request_id written into the request, and with the
// amount taken for the identity.
func TestADraftedRecipeIsPlayed(t *testing.T) {
	command, err := servers.Retrysafe()
	if err != nil {
		t.Fatal(err)
	}
	b := new(bank)
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	t.Cleanup(func() { _ = guard.Shutdown(context.Background()) })
	guarded, bare := serveOn(t, newServer(guard, b)), serveOn(t, withoutGuard(b))
	for _, c := range []struct {
		name, address, profile string
		fails                  bool
	}{
		{"guarded, the key in request_id", guarded, "aip155", false},
		{"guarded, the key in metadata", guarded, "ietf", false},
		{"without a guard, the key in request_id", bare, "aip155", true},
		{"without a guard, the key in metadata", bare, "ietf", true},
	} {
		recipe, before := filepath.Join(t.TempDir(), "recipe.yaml"), b.charges.Load()
		drafted, err := exec.CommandContext(t.Context(), command, "probe", "init", recipe, "--grpc=grpc://"+c.address,
			"--profile="+c.profile,
			"--metadata=user: alice", "--second-caller").CombinedOutput()
		if err != nil || b.charges.Load() != before {
			t.Fatalf("%s: probe init: %v, %d charges\n%s", c.name, err, b.charges.Load()-before, drafted)
		}
		play := exec.CommandContext(t.Context(), command, "probe", "--recipe", recipe)
		play.Env = append(os.Environ(), "PROBE_CREDENTIAL_A=alice", "PROBE_CREDENTIAL_B=bob")
		played, err := play.CombinedOutput()
		text, says := string(played), "retry-safe: yes"
		if c.fails {
			says = "FAIL G01 retry, critical"
		}
		if (err != nil) != c.fails || strings.Contains(text, " FAIL ") != c.fails || !strings.Contains(text, says) {
			t.Errorf("%s: %v, want %s\n%s", c.name, err, says, text)
		}
		if b.charges.Load() == before {
			t.Errorf("%s: nothing was paid", c.name)
		}
	}
}

// withoutGuard returns the server of newServer without the guard.
func withoutGuard(b *bank) *grpc.Server {
	server := grpc.NewServer(grpc.UnaryInterceptor(authenticate))
	pb.RegisterPaymentsServer(server, b)
	reflection.Register(server)
	return server
}

// serveOn serves on loopback until the test ends.
func serveOn(t *testing.T, server *grpc.Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return l.Addr().String()
}
