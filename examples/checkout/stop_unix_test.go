//go:build unix

package main

import (
	"syscall"
	"time"
)

// wakeUntilDone sends SIGCONT to the process of a boundary, each time after three leases, until the function that it
// returns is called.
func (town *town) wakeUntilDone(boundary string) (done func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(3 * lease)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = syscall.Kill(town.pid(processOf(boundary)), syscall.SIGCONT) // the buyer may have ended
			case <-stop:
				return
			}
		}
	}()
	return func() { close(stop); <-ended }
}
