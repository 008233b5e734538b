package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// buildTool builds the tool that a go.mod names, and returns its path in Go's build cache. Processes that need a tool
// at the same time wait for the first one to build it.
func buildTool(name string, mod, sum []byte) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	lock, err := openLocked(filepath.Join(cache, name+".lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	dir, err := os.MkdirTemp("", "retrysafe-build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o600),
		os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600)); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "tool", "-n", name)
	// With the packages of the standard library that tests have compiled for the command.
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = explained(err, failed.Stderr)
		}
		return "", fmt.Errorf("servers: build %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func copyProgram(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeProgram(to, program)
}

// writeProgram writes an executable file. No process is started while the file is open: a child that inherited the
// open file for a moment would make it impossible to execute ("text file busy").
func writeProgram(path string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, program, 0o755)
}
