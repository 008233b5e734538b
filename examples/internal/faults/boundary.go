package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// FolderVariable is the environment variable with the folder in which boundaries are armed. Without it they do nothing.
const FolderVariable = "RETRYSAFE_EXAMPLE_FAULTS"

// Fault is what happens to a process at a boundary.
type Fault string

// The faults.
const (
	Kill Fault = "kill" // SIGKILL
	Stop Fault = "stop" // SIGSTOP: it stands still until somebody sends SIGCONT
	Hold Fault = "hold" // what has reached it stands still until LetGo, and heartbeats of its process are lost meanwhile
)

// fired is added to the name of a boundary's file when it has fired.
const fired = ".fired"

// Boundary is a place between two durable steps of a program. It does nothing unless it is armed; then its fault happens,
// once.
func Boundary(name string) {
	folder := os.Getenv(FolderVariable)
	if folder == "" {
		return
	}
	file := filepath.Join(folder, name)
	if os.Rename(file, file+fired) != nil {
		return // not armed, or somebody else was faster
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

// Arm makes a fault happen when a boundary is reached next by a process that has the folder in its environment.
func Arm(folder, name string, f Fault) error {
	file := filepath.Join(folder, name)
	if err := os.WriteFile(file+".new", []byte(f), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Fired reports whether the fault armed at a boundary has happened.
func Fired(folder, name string) bool { return exists(filepath.Join(folder, name+fired)) }

// Forget makes a boundary what it was before Arm.
func Forget(folder, name string) {
	os.Remove(filepath.Join(folder, name))
	os.Remove(filepath.Join(folder, name+fired))
}

// kill ends this process as a power cut does: nothing is flushed, closed or said.
func kill() {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		panic(err)
	}
	self.Kill()
	select {} // for as long as it takes
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

// longestHold ends what nobody lets go.
const longestHold = time.Minute

// held reports whether something of this process is held.
func held() bool { return os.Getenv(FolderVariable) != "" && exists(heldFile()) }

func heldFile() string {
	return filepath.Join(os.Getenv(FolderVariable), heldPrefix+strconv.Itoa(os.Getpid()))
}

const heldPrefix = "held-"

// LetGo lets everything go on that is held.
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
