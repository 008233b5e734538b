package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// FolderVariable is the environment variable with the folder in which boundaries are armed. Without it boundaries do
// nothing.
const FolderVariable = "RETRYSAFE_EXAMPLE_FAULTS"

// Fault is what happens to a process at a boundary.
type Fault string

// The faults.
const (
	Kill Fault = "kill" // SIGKILL
	Stop Fault = "stop" // SIGSTOP: the process is paused until it gets SIGCONT
	Hold Fault = "hold" // the caller is held until LetGo, and heartbeats of its process fail meanwhile
)

// fired is added to the name of a boundary's file when it has fired.
const fired = ".fired"

// Boundary is a point between two durable steps of a program. It does nothing unless it is armed. An armed fault
// happens once.
func Boundary(name string) {
	folder := os.Getenv(FolderVariable)
	if folder == "" {
		return
	}
	file := filepath.Join(folder, name)
	if os.Rename(file, file+fired) != nil {
		return // not armed, or another process was faster
	}
	fault, err := os.ReadFile(file + fired)
	if err != nil {
		panic(err)
	}
	switch Fault(fault) {
	case Kill:
		kill()
	case Stop:
		stop()
	case Hold:
		hold()
	}
}

// Arm makes a fault happen when a process with the folder in its environment next reaches a boundary.
func Arm(folder, name string, f Fault) error {
	file := filepath.Join(folder, name)
	if err := os.WriteFile(file+".new", []byte(f), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Fired reports whether the fault armed at a boundary has happened.
func Fired(folder, name string) bool { return exists(filepath.Join(folder, name+fired)) }

// Forget disarms a boundary and forgets that it fired.
func Forget(folder, name string) {
	os.Remove(filepath.Join(folder, name))
	os.Remove(filepath.Join(folder, name+fired))
}

// kill ends this process like a power failure: nothing is flushed, closed or logged.
func kill() {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		panic(err)
	}
	self.Kill()
	select {} // until the signal arrives
}

func hold() {
	file := heldFile()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		panic(err)
	}
	for end := time.Now().Add(longestHold); exists(file) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// longestHold is the time after which a held call continues even without LetGo.
const longestHold = time.Minute

// held reports whether a call of this process is held.
func held() bool { return os.Getenv(FolderVariable) != "" && exists(heldFile()) }

func heldFile() string {
	return filepath.Join(os.Getenv(FolderVariable), heldPrefix+strconv.Itoa(os.Getpid()))
}

const heldPrefix = "held-"

// LetGo continues everything that is held.
func LetGo(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, heldPrefix+"*"))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
