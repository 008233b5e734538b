//go:build unix

package store

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
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

// Seen to fail (a stack trace) with every store taken for a Sweeper.
func TestSweepOfAStoreThatExpires(t *testing.T) {
	t.Parallel()
	got := clitest.Run(t, "sweep", "--store="+clitest.Redis.Get(t).URL())
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "output", got.Stdout, "by itself: there is nothing to do")
}
