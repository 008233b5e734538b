package execcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// errNotStarted is returned for a command that could not be started.
var errNotStarted = errors.New("the command cannot be run")

// gracePeriod is how long a command may take to end after SIGTERM, and how long its children may hold its output open
// after it has ended.
const gracePeriod = 10 * time.Second

// process is a command to be run.
type process struct {
	words   []string
	timeout time.Duration // 0: none
	env     string        // NAME=VALUE, besides our own environment
}

// run runs the command until it ends, and returns its status. It ends the command after the timeout, and when ctx ends,
// and passes on signals. The error says that the command was not started.
func (p process) run(ctx context.Context, said *output) (status int, err error) {
	if p.timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, p.timeout)
		defer stop()
	}
	cmd := exec.CommandContext(ctx, p.words[0], p.words[1:]...)
	cmd.Env = append(os.Environ(), p.env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stream{said, false}, stream{said, true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = gracePeriod
	defer dieTogether(cmd)()
	signals := make(chan os.Signal, 8)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) { // as nohup has SIGHUP ignored, for the command too
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go passOn(signals, cmd.Process, ended)
	_ = cmd.Wait() // its state tells
	return statusOf(cmd.ProcessState), nil
}

// keepBrokenPipes makes a standard output that is not read any more, such as that of a pipe to head or of a broken ssh,
// an error of the write, until the returned function is called. Otherwise it would end this program, and the kernel the
// command with it: the outcome would be unknown. The command itself gets no SIGPIPE, because it writes to a pipe of ours.
func keepBrokenPipes() (stop func()) {
	broken := make(chan os.Signal, 1) // never read
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}

// passOn passes signals on until the process has ended. An interrupt from a terminal reaches the process by itself.
func passOn(signals <-chan os.Signal, to *os.Process, ended <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			if s != syscall.SIGINT || !cli.IsTerminal(os.Stdin) {
				_ = to.Signal(s) // it may have ended
			}
		case <-ended:
			return
		}
	}
}

// statusOf returns the status of a process, as a shell has it.
func statusOf(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return exitBySignalBase + int(w.Signal())
	}
	return state.ExitCode()
}
