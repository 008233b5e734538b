package servers

import (
	"context"
	"strconv"
	"syscall"
	"testing"
)

// Service is an HTTP service that a test brings, in any language. Kill and Pause mean all of its processes.
type Service struct{ *Instance }

// StartService starts a service for one test and ends it with the test. Its command gets the port of 127.0.0.1 on
// which the service has to listen; it may begin with variables for its environment, and runs in an empty folder. The
// service has started once it answers a GET with whatever status.
func StartService(t testing.TB, name string, command func(port string) []string) *Service {
	t.Helper()
	in, err := newInstance(name, "root", "KILL", "") // what npm and go build have installed is the current user's
	check(t, err)
	s := &Service{in}
	s.closeWith(t)
	s.command, s.stop, s.ready = command(strconv.Itoa(in.port.number)), syscall.SIGTERM, s.answers
	check(t, s.start())
	return s
}

// answers returns nil once the service answers.
func (s *Service) answers(ctx context.Context) error {
	_, err := get(ctx, s.URL())
	return err
}

// URL returns the URL of the service.
func (s *Service) URL() string { return "http://" + s.address() }
