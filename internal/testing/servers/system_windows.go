package servers

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

const (
	sigStop = syscall.Signal(0x13)
	sigCont = syscall.Signal(0x12)
)

var errWindows = errors.New("servers: cannot control servers on Windows")

func detach(*exec.Cmd, account) {}

func signal(syscall.Signal, ...int) error { return errWindows }

func lockFile(*os.File) error { return errWindows }
