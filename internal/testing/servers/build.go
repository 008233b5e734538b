package servers

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// buildTool builds the tool that a go.mod names, once per machine, and returns its path. Processes that need a tool at
// the same time wait for the first one to build it.
func buildTool(name string, mod, sum []byte) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(slices.Concat(mod, sum))
	program := filepath.Join(cache, name+"-"+hex.EncodeToString(digest[:6]))
	lock, err := openLocked(program + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
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
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", program+".unfinished", "tool")
	// With the packages of the standard library that tests have compiled for the command.
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("servers: build %s: %w", name, explained(err, out))
	}
	return program, os.Rename(program+".unfinished", program)
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
