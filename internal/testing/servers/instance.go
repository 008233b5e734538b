package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Instance is one private server: the common part of all kinds of servers. It keeps its port and its data until it is
// closed, also while the server is down.
type Instance struct {
	name    string
	folder  *folder
	port    *port
	more    []*port                     // ports in addition to the one for clients
	command []string                    // runs the server in the foreground; may begin with variables for its environment
	stop    syscall.Signal              // the signal that ends the server cleanly
	ready   func(context.Context) error // returns nil once the server answers
	process *process                    // nil while the server is down
	paused  bool
}

// newInstance makes the folder of an instance and reserves its port. Root runs the server as the user. See
// watchdog.sh for endSignal and epilogue.
func newInstance(name, user, endSignal, epilogue string) (*Instance, error) {
	owner, err := serverAccount(user)
	if err != nil {
		return nil, err
	}
	f, err := newFolder(name, owner, endSignal, epilogue)
	if err != nil {
		return nil, err
	}
	p, err := reservePort()
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return &Instance{name: name, folder: f, port: p}, nil
}

// reserveMore reserves another port until the instance is closed, and returns its number.
func (in *Instance) reserveMore() (int, error) {
	p, err := reservePort()
	if err != nil {
		return 0, err
	}
	in.more = append(in.more, p)
	return p.number, nil
}

// address returns the address on which the server listens.
func (in *Instance) address() string { return fmt.Sprintf("127.0.0.1:%d", in.port.number) }

var (
	errNotOurs = errors.New("servers: this server was not started here, see " + postgresVariable +
		" and " + mysqlVariable + ": tests cannot start or stop it")
	errDown = errors.New("servers: the server is not running")
	errUp   = errors.New("servers: the server is already running")
)

// Start starts the server again, on the same port and data, and returns once it answers.
func (in *Instance) Start(t testing.TB) { t.Helper(); check(t, in.start()) }

// Stop ends the server cleanly and returns once it has ended. It first resumes a paused server.
func (in *Instance) Stop(t testing.TB) { t.Helper(); check(t, in.end()) }

// Restart is Stop, then Start.
func (in *Instance) Restart(t testing.TB) { t.Helper(); in.Stop(t); in.Start(t) }

// Kill ends all processes of the server with SIGKILL, and returns once they have ended. Start starts it again.
func (in *Instance) Kill(t testing.TB) { t.Helper(); check(t, in.kill()) }

// Pause stops all processes of the server (SIGSTOP) and returns once none of them runs. Clients get no answer and no
// error.
func (in *Instance) Pause(t testing.TB) { t.Helper(); check(t, in.pause()) }

// Resume continues a paused server.
func (in *Instance) Resume(t testing.TB) { t.Helper(); check(t, in.resume()) }

// PID returns the process ID of the server's first process. It is 0 if the server is down, or was not started here.
func (in *Instance) PID() int {
	if in == nil || in.process == nil {
		return 0
	}
	return in.process.pid
}

// Log returns the end of the server's log.
func (in *Instance) Log() string {
	if in == nil {
		return errNotOurs.Error()
	}
	return in.folder.logTail()
}

// Close kills the server and removes its folder. It returns an error if the server had ended by itself.
func (in *Instance) Close() error {
	if in == nil {
		return nil
	}
	var err error
	if in.process != nil && in.process.ended() {
		err = in.died()
	}
	err = errors.Join(err, in.folder.close(), in.port.release())
	for _, p := range in.more {
		err = errors.Join(err, p.release())
	}
	return err
}

// started starts a server that was configured, and closes it after an error, which may be that of its configuration.
func started[S interface {
	start() error
	Close() error
}](server S, err error) (S, error) {
	if err == nil {
		err = server.start()
	}
	if err != nil {
		var none S
		return none, errors.Join(err, server.Close())
	}
	return server, nil
}

// startFor starts a server for one test and ends it with the test.
func startFor[O any, S interface{ closeWith(t testing.TB) }](t testing.TB, launch func(O) (S, error), o O) S {
	t.Helper()
	server, err := launch(o)
	check(t, err)
	server.closeWith(t)
	return server
}

// closeWith closes the instance when t ends, and shows its log if t has failed.
func (in *Instance) closeWith(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s: %s", in.name, in.Log())
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (in *Instance) start() (err error) {
	switch {
	case in == nil:
		return errNotOurs
	case in.process != nil:
		return errUp
	}
	if in.process, err = in.folder.spawn(in.command...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var why error
	err = poll(ctx, "ready", func() (bool, error) {
		if in.process.ended() {
			return false, in.died()
		}
		why = in.ready(ctx)
		return why == nil, nil
	})
	if ctx.Err() != nil {
		err = fmt.Errorf("%s: %w: %w\n%s", in.name, err, why, in.Log())
	}
	return err
}

// settingLines returns settings in the order of their names, a line each. Those of a later map count.
func settingLines(format string, settings ...map[string]string) string {
	all := map[string]string{}
	for _, s := range settings {
		maps.Copy(all, s)
	}
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&lines, format, name, all[name])
	}
	return lines.String()
}

// died returns the error of a server that ended although it was not stopped.
func (in *Instance) died() error {
	err := fmt.Errorf("servers: %s ended by itself: %w\n%s", in.name, in.process.err, in.Log())
	in.process = nil
	return errors.Join(err, in.folder.forget())
}

func (in *Instance) end() error {
	if err := in.resume(); err != nil {
		return err
	}
	if err := signal(in.stop, in.process.pid); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-in.process.done:
	case <-ctx.Done():
		return fmt.Errorf("servers: %s did not stop in time\n%s", in.name, in.Log())
	}
	in.process = nil
	return in.folder.forget()
}

func (in *Instance) kill() error {
	if err := in.runs(); err != nil {
		return err
	}
	if err := in.process.kill(); err != nil {
		return err
	}
	in.process, in.paused = nil, false
	return in.folder.forget()
}

func (in *Instance) pause() error {
	if err := in.runs(); err != nil {
		return err
	}
	in.paused = true
	_, err := in.process.pause()
	return err
}

func (in *Instance) resume() error {
	if err := in.runs(); err != nil {
		return err
	}
	in.paused = false
	return in.process.resume()
}

func (in *Instance) runs() error {
	switch {
	case in == nil:
		return errNotOurs
	case in.process == nil:
		return errDown
	case in.process.ended():
		return in.died()
	}
	return nil
}

// patient returns a context that ends with patience, or with t.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
