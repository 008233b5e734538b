package servers

import (
	_ "embed"
	"path/filepath"
	"syscall"
	"testing"
)

// The go.mod from which stripe-mock is built. Like that of NATS, it belongs to no module of the repository.
var (
	//go:embed stripemock.mod
	stripeMockMod []byte
	//go:embed stripemock.sum
	stripeMockSum []byte
)

// StripeMock is Stripe's own mock of its API. It validates requests against the API's description and answers with
// fixtures. It stores nothing and ignores idempotency keys.
type StripeMock struct{ *Instance }

// StartStripeMock starts a server for one test and ends it with the test.
func StartStripeMock(t testing.TB) *StripeMock {
	t.Helper()
	in, err := newInstance("stripe-mock", "nobody", "KILL", "")
	check(t, err)
	s := &StripeMock{in}
	s.closeWith(t)
	check(t, s.configure())
	check(t, s.start())
	return s
}

func (s *StripeMock) configure() error {
	built, err := buildTool("stripe-mock", stripeMockMod, stripeMockSum)
	if err != nil {
		return err
	}
	// The account of the server may not have access to the user's folders.
	program := filepath.Join(s.folder.path, "stripe-mock")
	s.command, s.stop, s.ready = []string{program, "-http-addr", s.address(), "-https-addr", "127.0.0.1:0"},
		syscall.SIGTERM, answers(s.URL()+"/v1/charges", "Authorization", "Bearer sk_test_ready")
	return copyProgram(built, program)
}

// URL returns the URL of the server.
func (s *StripeMock) URL() string { return "http://" + s.address() }
