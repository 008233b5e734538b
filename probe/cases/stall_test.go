package cases_test

import (
	"sync/atomic"
	"testing"
	"time"
)

const (
	// longStall is how long this process must be kept from running for a case's times to say nothing. Cases send a
	// second request 300 ms after the first.
	longStall = 50 * time.Millisecond
	// stalledPlays is how often a case is played again for that reason.
	stalledPlays = 8
)

// stalled plays once, and reports whether the process was kept from running meanwhile.
func stalled(t *testing.T, play func() string) (objection string, stalled bool) {
	t.Helper()
	var longest atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		const step = 5 * time.Millisecond
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-stop:
				return
			case <-t.Context().Done(): // play has ended the test
				return
			case <-time.After(step):
				longest.Store(max(longest.Load(), int64(time.Since(last)-step)))
			}
		}
	}()
	objection = play()
	close(stop)
	<-stopped
	return objection, time.Duration(longest.Load()) > longStall
}
