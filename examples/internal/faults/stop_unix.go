//go:build unix

package faults

import (
	"os"
	"os/signal"
	"syscall"
)

// stop stands still until somebody sends SIGCONT: at once, although a signal that one sends oneself takes its time.
func stop() {
	woken := make(chan os.Signal, 1)
	signal.Notify(woken, syscall.SIGCONT)
	defer signal.Stop(woken)
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGSTOP); err != nil {
		panic(err)
	}
	<-woken
}
