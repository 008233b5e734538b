//go:build unix

package faults

import (
	"os"
	"os/signal"
	"syscall"
)

// stop pauses this process until it gets SIGCONT. It returns only after that, although a signal to the own process
// may be delivered late.
func stop() {
	woken := make(chan os.Signal, 1)
	signal.Notify(woken, syscall.SIGCONT)
	defer signal.Stop(woken)
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGSTOP); err != nil {
		panic(err)
	}
	<-woken
}
