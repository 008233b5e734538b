//go:build unix

package faults

import "syscall"

func stop() {
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGSTOP); err != nil {
		panic(err)
	}
}
