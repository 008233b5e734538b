package servers

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Build builds a command of this checkout as releases are built, and returns the path of the program, which stays in the
// checkout. All test packages share the file: the first of those that one go command runs has it brought up to date.
func Build(pkg string) (program string, err error) { return build(pkg, testRun()) }

// build builds a command, unless the same run of tests was the last to build it. run names that; "" is never the same.
func build(pkg, run string) (program string, err error) {
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
	builtBy, err := io.ReadAll(lock)
	if err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	if run != "" && string(builtBy) == run+pkg {
		return program, nil
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("servers: go build %s: %w", pkg, explained(err, out))
	}
	if err := os.WriteFile(lock.Name(), []byte(run+pkg), 0o600); err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	return program, nil
}

// testRun names the go command that has started this process as one of its tests, by its id and the time of its start.
// It returns "" where that cannot be known: another program has started it, or there is no /proc.
func testRun() string {
	parent := strconv.Itoa(os.Getppid())
	stat, err := os.ReadFile(filepath.Join("/proc", parent, "stat"))
	fields, isGo := strings.CutPrefix(string(stat), parent+" (go) ")
	if err != nil || !isGo {
		return ""
	}
	return parent + " " + strings.Fields(fields)[19] + " "
}

// Retrysafe returns the path of the command retrysafe, built from this checkout.
func Retrysafe() (string, error) { return Build("github.com/retrysafe/retrysafe/cmd/retrysafe") }
