package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SmallDisk runs test in a process of its own, with a folder that is a file system of that many bytes, which everyone may
// write to. No other process sees that file system, and it ends with the process and with the programs that it started.
// It needs root.
func SmallDisk(t *testing.T, bytes int, test func(t *testing.T, folder string)) {
	t.Helper()
	const inside = "RETRYSAFE_SMALL_DISK"
	folder := os.Getenv(inside)
	if folder != "" {
		check(t, syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprint("size=", bytes)))
		test(t, folder)
		return
	}
	folder, err := os.MkdirTemp("", "retrysafe-disk-")
	check(t, err)
	defer os.Remove(folder)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 10*time.Second
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Fatal("servers: a file system of a test's own needs root")
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
}
