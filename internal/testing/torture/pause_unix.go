//go:build unix

package torture

import "syscall"

// pause stops the process, with all that it is doing, until resume is called.
func (p *process) pause() error { return p.Process.Signal(syscall.SIGSTOP) }

func (p *process) resume() error { return p.Process.Signal(syscall.SIGCONT) }
