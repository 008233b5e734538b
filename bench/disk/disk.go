// Package disk starts processes on the real disk, or on one with delayed syncs, and counts their syncs.
package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/bench/figure"
)

// Disk is the disk to which a measured process writes.
type Disk struct {
	// Name is the name in the table.
	Name string
	// Delay is added to each sync of the process and its children.
	Delay time.Duration
}

// AsIs returns the disk of this machine without a delay.
func AsIs() Disk { return Disk{Name: "as is"} }

// Slow returns a disk with the delay of a typical cloud volume.
func Slow() Disk { return Disk{Name: "2 ms", Delay: 2 * time.Millisecond} }

// Named returns the disk with a name from the table.
func Named(name string) Disk {
	if name == Slow().Name {
		return Slow()
	}
	return AsIs()
}

// syncs are the system calls that make writes durable.
const syncs = "fsync,fdatasync"

// Command prepares the command name to run on the disk. With a delay or a trace it runs under strace, which stops it
// only at syncs; each sync adds a line to the file trace.
func (d Disk) Command(ctx context.Context, trace, name string, args ...string) *exec.Cmd {
	if d.Delay == 0 && trace == "" {
		return exec.CommandContext(ctx, name, args...)
	}
	if trace == "" {
		trace = os.DevNull
	}
	under := []string{"-f", "-qq", "--seccomp-bpf", "-e", "signal=none", "-e", "trace=" + syncs, "-o", trace}
	if d.Delay > 0 {
		under = append(under, "-e", fmt.Sprintf("inject=%s:delay_exit=%d", syncs, d.Delay.Microseconds()))
	}
	return exec.CommandContext(ctx, "strace", append(append(under, name), args...)...)
}

// CheckStrace returns an error with instructions if strace cannot be used.
func CheckStrace(ctx context.Context) error {
	out, err := Slow().Command(ctx, "", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("strace, which delays and counts syncs, does not work (Debian: apt-get install strace): %w\n%s",
			err, out)
	}
	return nil
}

// CountSyncs returns the number of syncs in trace.
func CountSyncs(trace string) (int, error) {
	text, err := os.ReadFile(trace)
	if err != nil {
		return 0, err
	}
	n := 0
	for line := range bytes.Lines(text) {
		// "123 fsync(4) = 0", or two lines if another thread's call comes between: "… resumed>) = 0" is the second
		// half.
		if bytes.Contains(line, []byte("sync(")) {
			n++
		}
	}
	return n, nil
}

// Probe appends 4 KiB and syncs, rounds times, in a new file in dir; it returns the durations in microseconds.
func Probe(dir string, rounds int) (figure.Figure, error) {
	fig := figure.Figure{What: "append 4 KiB and fdatasync", Unit: "µs"}
	f, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		return fig, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := []byte(strings.Repeat("x", 4096))
	for range rounds {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			return fig, err
		}
		if err := Datasync(f); err != nil {
			return fig, err
		}
		fig.Samples = append(fig.Samples, float64(time.Since(began).Nanoseconds())/1e3)
	}
	return fig, nil
}

// Datasync makes the data of f and its size durable, but not other metadata.
func Datasync(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) { syncErr = syscall.Fdatasync(int(fd)) })
	return errors.Join(err, syncErr)
}
