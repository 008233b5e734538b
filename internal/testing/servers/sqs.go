package servers

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What npm installs, and the program that serves it.
//
//go:embed sqs/package.json sqs/package-lock.json sqs/server.mjs
var sqsFiles embed.FS

// SQSVersion is the name and version of the server behind SQS.
const SQSVersion = "fauxqs 2.4.1"

// SQS is a server with the protocol of Amazon SQS. It keeps its queues in memory and loses them when it is killed.
type SQS struct{ *Instance }

// StartSQS starts a server for one test and ends it with the test. The first start on a machine installs the server
// with npm.
func StartSQS(t testing.TB) *SQS {
	t.Helper()
	s, err := LaunchSQS()
	check(t, err)
	s.closeWith(t)
	return s
}

// LaunchSQS starts a server for programs without a testing.TB. It ends with Close, or with this process.
func LaunchSQS() (*SQS, error) {
	program, err := installSQS()
	if err != nil {
		return nil, err
	}
	in, err := newInstance("sqs", "root", "KILL", "") // npm installs into the home of the current user
	if err != nil {
		return nil, err
	}
	s := &SQS{in}
	s.command, s.stop = []string{"node", program, strconv.Itoa(in.port.number)}, syscall.SIGKILL
	s.ready = answers(s.URL() + "/health")
	return started(s, nil)
}

// installSQS installs the server and returns the path of the program, which stays on the machine.
func installSQS() (string, error) {
	return installPackages("sqs", sqsFiles, "server.mjs", "package.json", "package-lock.json", "server.mjs")
}

// installPackages installs the npm packages of a folder, and returns the path of the program among them, which
// stays on the machine.
func installPackages(name string, from fs.FS, program string, names ...string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	files := map[string][]byte{}
	digest := sha256.New()
	for _, file := range names {
		if files[file], err = fs.ReadFile(from, name+"/"+file); err != nil {
			return "", err
		}
		digest.Write(files[file])
	}
	dir := filepath.Join(cache, name+"-"+hex.EncodeToString(digest.Sum(nil)[:6]))
	return filepath.Join(dir, program), installNPM(dir, files)
}

// installNPM runs npm with a lock file, one process at a time.
func installNPM(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := openLocked(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	done := filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	path, err := findProgram(npm)
	if err != nil {
		return err
	}
	if err := checkNode(); err != nil {
		return err
	}
	ci := exec.Command(path, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	ci.Dir = dir
	if out, err := ci.CombinedOutput(); err != nil {
		return fmt.Errorf("servers: npm ci: %w", explained(err, out))
	}
	return os.WriteFile(done, nil, 0o644)
}

// checkNode returns an error if node is too old for the npm packages.
func checkNode() error {
	out, err := exec.Command("node", "--version").Output()
	if err != nil {
		return fmt.Errorf("servers: node --version: %w", err)
	}
	version := strings.TrimSpace(string(out))
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < 20 {
		return fmt.Errorf("servers: the servers of the tests that npm installs need Node 20 or later; Node %s is installed",
			version)
	}
	return nil
}

// URL returns the URL of the server, a client's BaseEndpoint.
func (s *SQS) URL() string { return "http://" + s.address() }
