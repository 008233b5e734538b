package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build builds a command of this checkout as releases are built, and returns the path of the program, which stays in the
// checkout. All test packages share the file: the go command links it again only if its sources have changed.
func Build(pkg string) (program string, err error) {
	out, err := exec.Command("go", "env", "GOWORK").Output()
	if err != nil {
		return "", fmt.Errorf("servers: go env GOWORK: %w", err)
	}
	dir := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), ".bin", "tests")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	program = filepath.Join(dir, filepath.Base(pkg))
	lock, err := openLocked(program + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("servers: go build %s: %w", pkg, explained(err, out))
	}
	return program, nil
}

// Retrysafe returns the path of the command retrysafe, built from this checkout.
func Retrysafe() (string, error) { return Build("github.com/retrysafe/retrysafe/cmd/retrysafe") }
