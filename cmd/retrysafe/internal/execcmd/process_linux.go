package execcmd

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieTogether has the kernel kill the command if this program is killed: a command that outlives it would run beside
// the one that --rerun starts. The kernel means the thread that has started the command, which stays until the returned
// function is called.
func dieTogether(cmd *exec.Cmd) (release func()) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return runtime.UnlockOSThread
}
