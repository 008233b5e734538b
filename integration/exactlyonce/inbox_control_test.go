//go:build unix

package exactlyonce

import (
	"path/filepath"
	"testing"
)

// The control of TestSoakInboxKills: the same services without an inbox. One that acknowledges a request before it does the
// work loses it, and one that does the work first does it twice, because its sender sends the request again.
func TestWithoutAnInbox(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		acknowledges, how, killedAt string
		charges                     int
	}{{"before the work", "first", claimed, 0}, {"after the work", "never", committed, 2}} {
		for _, l := range fileServices() {
			t.Run(l.name+", acknowledges "+c.acknowledges, func(t *testing.T) {
				s := &stand{T: t, breakpoints: newBreakpoints(t)}
				ledger := filepath.Join(t.TempDir(), "ledger")
				url := l.start(s, "DATABASE="+ledger, "BOUNDARIES="+s.Addr().String(), "COMPLETE="+c.how)
				arrived, acknowledged := s.arm("order-1", c.killedAt), make(chan error, 1)
				go func() {
					_, err := charge(t.Context(), "order-1", patience, true, "", func() string { return url })
					acknowledged <- err
				}()
				p := <-arrived
				if err := p.Kill(); err != nil {
					t.Fatal(err)
				}
				if err := <-acknowledged; err != nil {
					t.Fatal(err)
				}
				<-p.ended
				if n := len(linesOf(t, ledger)["order-1"]); n != c.charges {
					t.Errorf("the order that was acknowledged is charged %d times, want %d", n, c.charges)
				}
			})
		}
	}
}
