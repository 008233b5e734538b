//go:build unix

package sqlitestore

import (
	"syscall"
	"testing"
	"time"
)

// cpu is the processor time that this process has used.
func cpu(t testing.TB) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
