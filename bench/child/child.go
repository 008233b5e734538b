// Package child starts programs that end when the process that started them ends.
package child

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Child is a running program.
type Child struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once err is known
	err   error
}

// Start starts cmd. The kernel kills the program with the thread that started it, so that a goroutine keeps the thread
// until the program has ended.
func Start(cmd *exec.Cmd) (*Child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c := &Child{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(c.ended)
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// PID returns the process ID of the program.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Ended returns a channel that is closed when the program has ended.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// Await waits until the program is ready. It gives up when the program ends, and when ctx does.
func (c *Child) Await(ctx context.Context, ready func() bool) error {
	for !ready() {
		select {
		case <-c.ended:
			return errors.New("it has ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// patience is the timeout after which Stop kills the program.
const patience = 15 * time.Second

// Stop terminates the program and waits until it has ended. It ignores the exit status.
func (c *Child) Stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		select {
		case <-c.ended: // the program ended by itself
		default:
			return err
		}
	}
	timer := time.AfterFunc(patience, func() { c.cmd.Process.Kill() })
	defer timer.Stop()
	<-c.ended
	var exit *exec.ExitError
	if c.err != nil && !errors.As(c.err, &exit) {
		return c.err
	}
	return nil
}
