//go:build unix

package main

import (
	"syscall"
	"time"
)

// wakeUntilDone sends SIGCONT to the process of a boundary every three leases, until the returned function is called.
func (c *cluster) wakeUntilDone(boundary string) (done func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(3 * lease)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = syscall.Kill(c.pid(processOf(boundary)), syscall.SIGCONT) // the buyer may have ended
			case <-stop:
				return
			}
		}
	}()
	return func() { close(stop); <-ended }
}
