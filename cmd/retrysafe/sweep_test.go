//go:build unix

package main

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

	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

func TestSweepAFile(t *testing.T) {
	t.Parallel()
	up, file := newAPI(t), filepath.Join(t.TempDir(), "keys.db")
	p := startProxy(t, "--upstream="+up.URL, "--store="+file)
	p.mustPost("k", "amount=1")
	busy := runBinary(t, "sweep", "--store="+file)
	want(t, "exit code", busy.code, exitFailed)
	wantText(t, "output", busy.stderr, file, "in use", "sweeps it as it goes")
	p.signal(syscall.SIGTERM)
	want(t, "exit code", p.exit(), exitOK)
	got := runBinary(t, "sweep", "--store="+file)
	want(t, "exit code", got.code, exitOK)
	wantText(t, "output", got.stdout, file, "swept 0 records")
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
	command := exec.Command(binary, "sweep", "--store", file, "--every=1s")
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
		wantText(t, "line", lines.Text(), "swept 0 records")
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
			r, err := (&broom{store: h, limit: c.limit, progress: &progress}).round(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want(t, "swept", r.Swept, c.swept)
			want(t, "left", h.due, c.left)
			r.print(&out, false)
			wantText(t, "summary", out.String(), c.says)
			want(t, "progress ends with an empty line", strings.HasSuffix(progress.String(), " \r"), true)
		})
	}
	broken := &heap{due: 5, err: errors.New("disk full")}
	err := sweepCmd{}.rounds(t.Context(), &streams{out: io.Discard}, &broom{store: broken, name: "x"}, 0)
	wantText(t, "error", err.Error(), "after 5 records", "disk full")
}
