package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/bench/disk"
)

// Measured code runs in separate processes, so that goals do not share a heap, and only the measured process runs on
// the delayed disk. Each is this program, started as `bench -role NAME JSON`.

// role runs a role and returns its results. A server calls ready with its address, and ends when stop is done.
type role func(stop context.Context, in json.RawMessage, ready func(any) error) (any, error)

func roles() map[string]role {
	return map[string]role{
		"probe":       probeRole,
		"pairs":       pairsRole,
		"sweep":       sweepRole,
		"fill":        fillRole,
		"reopen":      reopenRole,
		"middleware":  middlewareRole,
		"heartbeat":   heartbeatRole,
		"upstream":    upstreamRole,
		"plain":       plainRole,
		"proxy":       proxyRole,
		"binary":      binaryRole,
		"restate":     restateRole,
		"pgpairs":     pgPairsRole,
		"redispairs":  redisPairsRole,
		"redisbytes":  redisBytesRole,
		"latency":     latencyRole,
		"pgsweep":     pgSweepRole,
		"pgwake":      pgWakeRole,
		"pgdbos":      pgDBOSRole,
		"mysqlpairs":  mysqlPairsRole,
		"completions": completionsRole,
		"service":     serviceRole,
	}
}

// playRole runs the role in this process and prints the result to standard output as a line of JSON.
func playRole(name, in string) error {
	play, ok := roles()[name]
	if !ok {
		return fmt.Errorf("no role %q", name)
	}
	stop, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // the end of standard input ends a server, also if the parent dies
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	ended, err := startProfile(os.Getenv(profileEnv))
	if err != nil {
		return err
	}
	defer ended()
	out := json.NewEncoder(os.Stdout)
	answer, err := play(stop, json.RawMessage(in), func(v any) error { return out.Encode(v) })
	if err != nil {
		return err
	}
	return out.Encode(answer)
}

// profileEnv is the environment variable with the file for a role's CPU profile.
const profileEnv = "RETRYSAFE_BENCH_PROFILE"

func startProfile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
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

// startRole starts this program again in a role, on d. trace, if not empty, is the file in which its syncs are
// traced; profile, if not empty, is the file for its CPU profile.
func startRole(ctx context.Context, d disk.Disk, trace, profile, name string, in any) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	cmd := d.Command(ctx, trace, self, "-role", name, string(text))
	p := &process{cmd: cmd}
	cmd.Stderr = &p.messages
	cmd.Env = append(os.Environ(), profileEnv+"="+profile)
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

// callRole runs a role to its end.
func callRole[T any](ctx context.Context, d disk.Disk, trace, profile, name string, in any) (T, error) {
	var answer T
	p, err := startRole(ctx, d, trace, profile, name, in)
	if err != nil {
		return answer, err
	}
	if err := p.answer(&answer); err != nil {
		return answer, err
	}
	return answer, p.end()
}

// interruptible ends with the first interrupt.
func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}
