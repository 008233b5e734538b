package rpc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// asServer is the environment variable that makes the test binary a server of the shop on this PostgreSQL, until it
// is killed.
const asServer = "RETRYSAFE_TEST_SERVE_SHOP"

func TestMain(m *testing.M) {
	if url := os.Getenv(asServer); url != "" {
		if err := serveShop(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if arguments := os.Getenv(asClient); arguments != "" {
		fmt.Fprintln(os.Stderr, runClient(arguments))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveShop prints its address, and "begun" whenever Slowly begins, which never ends.
func serveShop(url string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	store, err := pgstore.New(ctx, pool, pgstore.Options{})
	if err != nil {
		return err
	}
	s := &shop{slow: func(ctx context.Context) {
		fmt.Println("begun")
		<-ctx.Done()
	}}
	guard := retrysafe.New(store, retrysafe.Options{})
	l, err := listenLoopback()
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() { // the end of standard input means that the parent has ended
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return s.server(guard, rpcsafe.Options{}).Serve(l)
}

// process is a server or a client in another process.
type process struct {
	address string
	says    *bufio.Scanner
	kill    func()
}

func startProcess(t *testing.T, url string) *process {
	t.Helper()
	p := startAs(t, asServer+"="+url)
	p.address = p.line(t)
	return p
}

// startAs starts the test binary with an environment variable that says what it is.
func startAs(t *testing.T, variable string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), variable)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{says: bufio.NewScanner(stdout), kill: func() {
		_ = cmd.Process.Kill() // SIGKILL
		_ = cmd.Wait()
		_ = stdin.Close()
	}}
	t.Cleanup(p.kill)
	return p
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	if !p.says.Scan() {
		t.Fatalf("the process ended: %v", p.says.Err())
	}
	return p.says.Text()
}

var postgres servers.SharedPostgres

// Two processes share a database. One is killed while it works; the other answers "in flight" until the lease
// expires, and from then on "outcome unknown". Seen to fail with OnAbandoned: Rerun (the other one started the work,
// too).
func TestKilledServer(t *testing.T) {
	url := postgres.Get(t).Database(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	one, other := startProcess(t, url), startProcess(t, url)
	cut := make(chan answer, 1)
	go func() { cut <- send(t.Context(), dial(t, one.address), "Slowly", "k") }()
	if got := one.line(t); got != "begun" {
		t.Fatalf("the server says %q", got)
	}
	conn := dial(t, other.address)
	wantReason(t, send(t.Context(), conn, "Slowly", "k"), codes.Aborted, "IDEMPOTENT_REQUEST_IN_FLIGHT")
	one.kill()
	if a := <-cut; status.Code(a.err) != codes.Unavailable {
		t.Errorf("the killed server answered %+v", a)
	}
	wantReason(t, send(t.Context(), conn, "Slowly", "k"), codes.Aborted, "IDEMPOTENT_REQUEST_IN_FLIGHT")
	const expire = "UPDATE retrysafe.claims SET ends_at = ends_at - 3600000000"
	if _, err := pool.Exec(t.Context(), expire); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a := send(t.Context(), conn, "Slowly", "k")
		wantReason(t, a, codes.Internal, "IDEMPOTENT_OUTCOME_UNKNOWN")
		if got := strings.Join(a.trailer["grpc-retry-pushback-ms"], ","); got != "-1" || !a.replayed() {
			t.Errorf("pushback %q, replayed %v", got, a.replayed())
		}
	}
	if a := send(t.Context(), conn, "Create", "another"); a.err != nil {
		t.Error(a.err)
	}
}

func wantReason(t *testing.T, a answer, code codes.Code, reason string) {
	t.Helper()
	s := status.Convert(a.err)
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && s.Code() == code && info.Reason == reason {
			return
		}
	}
	t.Fatalf("got %v, want %v with %s", s, code, reason)
}
