// Package child starts programs that end with the process that started them.
package child

import (
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

// Start starts cmd. It ties the caller's goroutine to its thread for good: the system ends the program with the thread
// that started it.
func Start(cmd *exec.Cmd) (*Child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &Child{cmd: cmd, ended: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// PID of the program.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Ended is closed when the program has ended.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// patience is how long a program may take to end when asked to.
const patience = 15 * time.Second

// Stop asks the program to end, and waits until it has. How it exits does not matter.
func (c *Child) Stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		select {
		case <-c.ended: // by itself
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
