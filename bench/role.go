package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/loopback"
)

// Measured code runs in separate processes, so that goals do not share a heap, and only the measured process runs on
// the delayed disk. Each is this program, started as `bench -role NAME JSON`.

// role is what such a process does. Its fields are its parameters, and its name is that of its type.
type role interface {
	// play runs the role and returns its results. A server calls ready with its address, and ends when stop is done.
	play(stop context.Context, ready func(any) error) (any, error)
}

func roles() []role {
	return []role{
		probe{},
		pairs{},
		sweep{},
		fill{},
		reopen{},
		middleware{},
		heartbeat{},
		upstream{},
		plainProxy{},
		ourProxy{},
		hop{},
		binary{},
		restateServer{},
		pgPairs{},
		pgSweep{},
		pgWake{},
		pgDBOS{},
		redisPairs{},
		redisBytes{},
		latency{},
		completions{},
		claimed{},
		service{},
		mysqlPairs{},
		relays{},
		relayLag{},
		accepting{},
		delivering{},
		restarts{},
		bare{},
		clients{},
		keeping{},
	}
}

func roleName(r role) string { return reflect.TypeOf(r).Name() }

// newRole returns the role of that name with its parameters.
func newRole(name, parameters string) (role, error) {
	for _, r := range roles() {
		if roleName(r) == name {
			filled := reflect.New(reflect.TypeOf(r))
			err := json.Unmarshal([]byte(parameters), filled.Interface())
			return filled.Elem().Interface().(role), err
		}
	}
	return nil, fmt.Errorf("no role %q", name)
}

// playRole runs the role in this process and prints the result to standard output as a line of JSON.
func playRole(name, parameters string) error {
	r, err := newRole(name, parameters)
	if err != nil {
		return err
	}
	stop, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // the end of standard input ends a server, also if the parent dies
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if path := os.Getenv(profileEnv); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	out := json.NewEncoder(os.Stdout)
	answer, err := r.play(stop, out.Encode)
	if err != nil {
		return err
	}
	return out.Encode(answer)
}

// profileEnv is the environment variable with the file for a role's CPU profile.
const profileEnv = "RETRYSAFE_BENCH_PROFILE"

// serveUntil serves h until stop is done. It calls ready with what found makes of the address.
func serveUntil(stop context.Context, h http.Handler, ready func(any) error, found func(address string) any) error {
	address, end, err := loopback.Serve("", h)
	if err != nil {
		return err
	}
	if err := ready(found(address)); err != nil {
		return errors.Join(err, end())
	}
	<-stop.Done()
	return end()
}

// place says where a role runs, and what is recorded of it.
type place struct {
	disk    disk.Disk
	trace   string // the file in which its syncs are traced; empty for none
	profile string // the file for its CPU profile; empty for none
}

// process is a role in another process.
type process struct {
	cmd      *exec.Cmd
	stdin    io.Closer
	out      *json.Decoder
	messages bytes.Buffer // on standard error; complete once the process has ended

	once sync.Once
	err  error // how the process ended
}

// startRole starts this program again in a role.
func startRole(ctx context.Context, at place, r role) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	parameters, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	cmd := at.disk.Command(ctx, at.trace, self, "-role", roleName(r), string(parameters))
	p := &process{cmd: cmd}
	cmd.Stderr = &p.messages
	cmd.Env = append(os.Environ(), profileEnv+"="+at.profile)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(bufio.NewReader(stdout))
	return p, cmd.Start()
}

// answer reads the role's next answer into v. If there is none, the error has the role's messages.
func (p *process) answer(v any) error {
	err := p.out.Decode(v)
	if err == nil {
		return nil
	}
	if endErr := p.end(); endErr != nil {
		return endErr
	}
	return fmt.Errorf("no answer: %w", err)
}

// end ends a server and waits until it has ended. It may be repeated.
func (p *process) end() error {
	p.once.Do(func() {
		p.stdin.Close()
		if err := p.cmd.Wait(); err != nil {
			p.err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(p.messages.Bytes()))
		}
	})
	return p.err
}

// call runs a role to its end.
func call[T any](ctx context.Context, at place, r role) (T, error) {
	var answer T
	p, err := startRole(ctx, at, r)
	if err != nil {
		return answer, err
	}
	if err := p.answer(&answer); err != nil {
		return answer, err
	}
	return answer, p.end()
}

// servers are the processes that a goal has started.
type servers struct{ running []*process }

// startServer starts a role that serves, and waits until it is ready.
func startServer[T any](ctx context.Context, s *servers, at place, r role) (T, error) {
	var ready T
	p, err := startRole(ctx, at, r)
	if err != nil {
		return ready, err
	}
	s.running = append(s.running, p)
	return ready, p.answer(&ready)
}

// end ends the servers in reverse order.
func (s *servers) end() error {
	var errs []error
	for i := len(s.running) - 1; i >= 0; i-- {
		errs = append(errs, s.running[i].end())
	}
	s.running = nil
	return errors.Join(errs...)
}
