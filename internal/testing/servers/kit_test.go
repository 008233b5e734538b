package servers_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// shared is the server for tests that do not stop or damage it.
var shared servers.SharedPostgres

func want(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// session is an open connection.
type session struct {
	t       testing.TB
	in      io.Writer
	answers chan string // line by line
}

func openSession(t testing.TB, url string) *session {
	t.Helper()
	return newSession(t, "psql", "-XAtq", "-d", url)
}

func openMariaDBSession(t testing.TB, m *servers.MariaDB, dsn string) *session {
	t.Helper()
	_, database, _ := strings.Cut(dsn, ")/")
	host, port, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(m.DSN(""), "root@tcp("), ")/"), ":")
	return newSession(t, "mariadb", "--no-defaults", "-BNnf", "-h"+host, "-P"+port, "-uroot", database)
}

func newSession(t testing.TB, client string, args ...string) *session {
	t.Helper()
	cmd := exec.Command(client, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, in: in, answers: make(chan string)}
	go func() {
		defer close(s.answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.answers <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		for range s.answers {
		}
		cmd.Wait()
	})
	s.ask("SELECT 'open'")
	want(t, <-s.answers, "open")
	return s
}

func (s *session) ask(sql string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, sql+";\n"); err != nil {
		s.t.Fatal(err)
	}
}

// reachableFolder returns a folder in which the server's user may create others, which it may not in t.TempDir.
func reachableFolder(t testing.TB, server string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "retrysafe-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if u, err := user.Lookup(server); err == nil && os.Getuid() == 0 {
		uid, _ := strconv.Atoi(u.Uid)
		if err := os.Chown(dir, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// failing is a test that is expected to fail.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Helper() {}

func (f *failing) Fatal(args ...any) {
	f.message = fmt.Sprint(args...)
	panic(f)
}

// failure returns the message with which do fails its test, or "" if it does not fail.
func failure(t testing.TB, do func(t testing.TB)) (message string) {
	f := &failing{TB: t}
	defer func() {
		if r := recover(); r != nil && r != any(f) {
			panic(r)
		}
		message = f.message
	}()
	do(f)
	return ""
}
