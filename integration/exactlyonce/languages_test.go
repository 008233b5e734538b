//go:build unix

package exactlyonce

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// language is a service program.
type language struct {
	name    string
	command func(t *testing.T) []string // with variables for its environment before it, as for env
	// forks says that the program listens, and forks for each connection. Otherwise the program serves one connection,
	// which is its standard input.
	forks bool
}

// languages are those of make test, followed by those of make languages.
func languages() []language {
	return append([]language{
		{name: "Go, pgx", command: func(t *testing.T) []string { return []string{build(t, "./services/goservice")} }},
		{name: "Python, psycopg", command: python("psycopg"), forks: true},
		{name: "Python, psycopg2", command: python("psycopg2"), forks: true},
		{name: "Node, pg", command: func(t *testing.T) []string {
			return []string{"NODE_PATH=" + servers.NodePostgres(t), servers.Node(t), program("service.js")}
		}},
	}, moreLanguages()...)
}

func python(driver string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		return []string{servers.PythonWith(t, driver), program("service.py"), driver}
	}
}

func program(name string) string { return filepath.Join("services", name) }

// TestMain runs more tests at once than there are processors, because they mostly wait for leases to end.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "5")
	os.Exit(m.Run())
}

// build builds a program, as releases are built, and returns its path.
func build(t *testing.T, pkg string) string {
	t.Helper()
	path, err := servers.Build(pkg)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start starts the service with a stand, and returns its URL. Environment is for each process of it.
func (l language) start(s *stand, environment ...string) (url string) {
	s.Helper()
	args := slices.Concat(environment, l.command(s.T))
	command := func(ctx context.Context) *exec.Cmd {
		c := exec.CommandContext(ctx, "env", args...)
		c.Stderr = &s.log
		return c
	}
	if l.forks {
		return l.startServer(s, command(s.Context()))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				err = serve(conn.(*net.TCPConn), command(s.Context()), &running)
			}
			if err != nil {
				s.Error(err)
			}
		}
	})
	s.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	return "http://" + listener.Addr().String()
}

// serve starts a process for a connection, which nobody else has open: when the process dies, the connection breaks.
func serve(conn *net.TCPConn, c *exec.Cmd, running *sync.WaitGroup) error {
	defer conn.Close()
	file, err := conn.File()
	if err != nil {
		return err
	}
	defer file.Close()
	c.Stdin = file
	if err := c.Start(); err != nil {
		return err
	}
	running.Go(func() { _ = c.Wait() }) // it is killed, or has told the client about its error
	return nil
}

// startServer starts a program that listens, and prints its port.
func (l language) startServer(s *stand, c *exec.Cmd) (url string) {
	s.Helper()
	in, err := c.StdinPipe() // at its end, the program ends
	if err != nil {
		s.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := c.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		in.Close()
		_ = c.Wait() // it has no exit code to look at
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.Fatalf("%s does not listen: %v\n%s", l.name, err, s.log.String())
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}
