package demo

import (
	"fmt"
	"os/exec"
)

// child is a process of the operating system that this one has started. It ends with this one: its standard input
// closes then, even if this process is killed.
type child struct {
	command *exec.Cmd
	ended   chan struct{} // closed once the process is gone
}

// startChild starts a process. What says which one it is, for the error.
func startChild(command *exec.Cmd, what string) (*child, error) {
	if _, err := command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", what, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", what, err)
	}
	c := &child{command: command, ended: make(chan struct{})}
	go func() { // ends with the process
		_ = command.Wait() // how it ended is in its log
		close(c.ended)
	}()
	return c, nil
}

// pid of the running process.
func (c *child) pid() int { return c.command.Process.Pid }

// kill ends the process at once, as kill -9 does, and returns when it is gone. It does nothing to a process that was
// never started or is gone.
func (c *child) kill() {
	if c == nil {
		return
	}
	c.command.Process.Kill() // fails only if it has ended
	<-c.ended
}
