//go:build unix

package servers

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

// detach makes the command run as the account and in its own session, so that it gets no signals from the terminal.
func detach(cmd *exec.Cmd, a account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a.other {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
	}
}

// signal sends a signal to each process. It ignores processes that have ended.
func signal(s syscall.Signal, pids ...int) error {
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lockFile waits for an exclusive lock on f. The lock ends with the last process that has inherited f.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
