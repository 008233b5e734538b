package servers

import (
	"sync"
	"testing"
)

// SharedNATS is one server for all tests of a test binary. The zero value is ready for use; the server starts with the
// first Get and ends with the process. A SharedNATS must not be copied. Tests that kill a server start their own.
type SharedNATS struct {
	Options NATSOptions

	once sync.Once
	n    *NATS
	err  error
}

// Get returns the server. It fails the test, and all tests that follow, if the server does not start.
func (s *SharedNATS) Get(t testing.TB) *NATS {
	t.Helper()
	s.once.Do(func() { s.n, s.err = LaunchNATS(s.Options) })
	check(t, s.err)
	return s.n
}
