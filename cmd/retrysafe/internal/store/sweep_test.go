//go:build unix

package store

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

func TestSweepAFile(t *testing.T) {
	t.Parallel()
	up, file := clitest.NewAPI(t), filepath.Join(t.TempDir(), "keys.db")
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store="+file)
	p.MustPost("k", "amount=1")
	busy := clitest.Run(t, "sweep", "--store="+file)
	clitest.Want(t, "exit code", busy.Code, cli.ExitFailed)
	clitest.WantText(t, "output", busy.Stderr, file, "in use", "sweeps it in the background")
	p.Signal(syscall.SIGTERM)
	clitest.Want(t, "exit code", p.Exit(), cli.ExitOK)
	got := clitest.Run(t, "sweep", "--store="+file)
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "output", got.Stdout, file, "swept 0 records")
}

// Seen to fail with the signal taken for a failure.
func TestSweepEveryEndsWithASignal(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.db")
	s, err := sqlitestore.Open(file, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	command := exec.Command(clitest.Binary, "sweep", "--store", file, "--every=1s")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command.Process.Kill() })
	lines := bufio.NewScanner(out)
	for range 2 {
		if !lines.Scan() {
			t.Fatalf("it has ended: %v", command.Wait())
		}
		clitest.WantText(t, "line", lines.Text(), "swept 0 records")
	}
	command.Process.Signal(syscall.SIGTERM)
	io.Copy(io.Discard, out)
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
}

// A sweep that runs as a service waits for its server at start, as a proxy does, and goes on after a round that has
// failed. One that runs once, as from cron, fails at once.
//
// Seen to fail with Open in place of OpenPatiently in SweepCmd.open, with OpenPatiently there for a single sweep too,
// and with rounds returning the error of every round.
func TestSweepEveryOutlivesAnAbsenceOfItsServer(t *testing.T) {
	t.Parallel()
	postgres := servers.StartPostgres(t, servers.PostgresOptions{})
	mariadb := servers.StartMariaDB(t, servers.MariaDBOptions{})
	config, err := mysql.ParseDSN(mariadb.Database(t))
	clitest.Must(t, err)
	for _, c := range []struct {
		url    string
		server interface {
			Stop(testing.TB)
			Start(testing.TB)
		}
	}{
		{postgres.Database(t), postgres},
		{"mysql://" + config.User + "@" + config.Addr + "/" + config.DBName, mariadb},
	} {
		if got := clitest.Run(t, "migrate", "up", "--store="+c.url); got.Code != 0 {
			t.Fatal(got.Stderr)
		}
		c.server.Stop(t)
		once := clitest.Run(t, "sweep", "--store="+c.url)
		clitest.Want(t, "exit code of a single sweep", once.Code, cli.ExitFailed)
		if strings.Contains(once.Stderr, "trying again") {
			t.Errorf("a single sweep waits for its server:\n%s", once.Stderr)
		}
		s := startSweep(t, "--store="+c.url, "--every=1s")
		s.until("the store cannot be reached; trying again in 250ms")
		c.server.Start(t)
		s.until("swept 0 records")
		c.server.Stop(t)
		s.until("the next round is in 1s")
		c.server.Start(t)
		s.until("swept 0 records")
		clitest.Must(t, s.command.Process.Signal(syscall.SIGTERM))
		s.rest()
		clitest.Want(t, "exit code", s.command.ProcessState.ExitCode(), cli.ExitOK)
	}
}

// A signal ends the wait for a server that is away. Seen to fail with the error of OpenPatiently returned.
func TestASignalEndsTheWaitForAServer(t *testing.T) {
	t.Parallel()
	s := startSweep(t, "--store=postgres://u@127.0.0.1:1/db", "--every=1s")
	s.until("trying again")
	clitest.Must(t, s.command.Process.Signal(syscall.SIGTERM))
	s.rest()
	clitest.Want(t, "exit code", s.command.ProcessState.ExitCode(), cli.ExitOK)
}

// sweeping is retrysafe sweep in a process of its own.
type sweeping struct {
	t       *testing.T
	command *exec.Cmd
	lines   chan string // of both of its outputs; closed when it has ended
}

func startSweep(t *testing.T, args ...string) *sweeping {
	t.Helper()
	s := &sweeping{
		t: t, lines: make(chan string, 1000),
		command: exec.Command(clitest.Binary, append([]string{"sweep"}, args...)...),
	}
	out, in, err := os.Pipe()
	clitest.Must(t, err)
	s.command.Stdout, s.command.Stderr = in, in
	clitest.Must(t, s.command.Start())
	in.Close()
	go func() {
		defer close(s.lines)
		for read := bufio.NewScanner(out); read.Scan(); {
			s.lines <- read.Text()
		}
		_ = s.command.Wait() // its exit code tells
	}()
	t.Cleanup(func() {
		s.command.Process.Kill()
		s.rest()
		out.Close()
	})
	return s
}

// until reads the output up to a line that has text.
func (s *sweeping) until(text string) {
	s.t.Helper()
	said := ""
	for !strings.Contains(said, text) {
		line := clitest.WaitFor(s.t, s.lines, text+" after\n"+said)
		if line == "" {
			s.t.Fatalf("it has ended before it said %q:\n%s", text, said)
		}
		said += line + "\n"
	}
}

// rest waits until the process has ended.
func (s *sweeping) rest() {
	for range s.lines { // until it is closed
	}
}

// heap is a store with records that are due.
type heap struct {
	due int
	err error
}

func (h *heap) Sweep(ctx context.Context, limit int) (int, error) {
	n := min(h.due, limit)
	h.due -= n
	return n, h.err
}

// Seen to fail with the loop of round taken out, with its limit, and with print's texts exchanged.
func TestSweepGoesOnUntilNothingIsDue(t *testing.T) {
	for _, c := range []struct {
		name        string
		due, limit  int
		swept, left int
		says        string
	}{
		{"nothing", 0, 0, 0, 0, "nothing is due"},
		{"one", 1, 0, 1, 0, "swept 1 record "},
		{"many", 25_000, 0, 25_000, 0, "swept 25000 records"},
		{"exactly a pass", 10_000, 0, 10_000, 0, "swept 10000 records"},
		{"a limit", 25_000, 12_345, 12_345, 12_655, "more may be due"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &heap{due: c.due}
			var progress, out strings.Builder
			r, err := (&sweeper{store: h, limit: c.limit, progress: &progress}).round(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			clitest.Want(t, "swept", r.Swept, c.swept)
			clitest.Want(t, "left", h.due, c.left)
			r.print(&out, false)
			clitest.WantText(t, "summary", out.String(), c.says)
			clitest.Want(t, "progress ends with an empty line", strings.HasSuffix(progress.String(), " \r"), true)
		})
	}
	broken := &heap{due: 5, err: errors.New("disk full")}
	err := SweepCmd{}.rounds(t.Context(), &cli.Streams{Out: io.Discard}, &sweeper{store: broken, name: "x"}, 0)
	clitest.WantText(t, "error", err.Error(), "after 5 records", "disk full")
}

// hung is a store whose server does not answer the first pass.
type hung struct{ passes int }

func (h *hung) Sweep(ctx context.Context, limit int) (int, error) {
	if h.passes++; h.passes == 1 {
		<-ctx.Done()
	}
	return 0, ctx.Err()
}

// A server that stops answering ends a round, and not all of them. Seen to fail with the context of all rounds given to
// Sweep: no second round began.
func TestSweepGoesOnAfterAServerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		h, told := new(hung), new(strings.Builder)
		b := &sweeper{store: h, name: "x"}
		if err := (SweepCmd{}).rounds(ctx, &cli.Streams{Out: io.Discard, Err: told}, b, time.Minute); err != nil {
			t.Error(err)
		}
		clitest.WantText(t, "error", told.String(), "deadline exceeded", "the next round is in 1m")
		if h.passes < 10 {
			t.Errorf("%d rounds in an hour", h.passes)
		}
	})
}

// Seen to fail (a stack trace) with every store taken for a Sweeper.
func TestSweepOfAStoreThatExpires(t *testing.T) {
	t.Parallel()
	got := clitest.Run(t, "sweep", "--store="+clitest.Redis.Get(t).URL())
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "output", got.Stdout, "by itself: there is nothing to do")
}
