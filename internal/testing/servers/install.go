package servers

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

//go:embed install.sh
var installScript string

// Install installs everything that the servers of this package need and that is missing: all Debian packages at once,
// the tools that are built from source, and the npm packages. It takes a minute or two on a new machine. Tests
// install what they need by themselves; tests that need an installation meanwhile wait for Install. It returns the
// same errors with which the tests fail.
func Install() error {
	built := make(chan error, 1)
	go func() { // building needs the processor, apt-get the network
		_, nats := buildTool("nats-server", natsMod, natsSum)
		_, stripe := buildTool("stripe-mock", stripeMockMod, stripeMockSum)
		built <- errors.Join(nats, stripe)
	}()
	err := installMissing(allPrograms()...)
	if npm.lookUp() != "" {
		_, sqs := installSQS()
		_, dynamodb := installDynalite()
		_, pg := installNodePostgres()
		_, typescript := installNodeTypeScript()
		_, axe := installAxe()
		err = errors.Join(err, sqs, dynamodb, pg, typescript, axe)
	}
	return errors.Join(err, <-built)
}

// aptInstall installs packages. If this process is killed, the installation continues and keeps the lock.
func aptInstall(lock *os.File, packages []string) error {
	args := append([]string{"-c", installScript, "install", "/usr/sbin/policy-rc.d"}, packages...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.ExtraFiles = []*os.File{lock}
	detach(cmd, account{})
	out, err := cmd.CombinedOutput()
	return explained(err, out)
}

// openLocked opens the lock file of installations, and waits until this process has the lock.
func openLocked(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(lock); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// errorLine matches an error message of apt-get, npm or go.
var errorLine = regexp.MustCompile(`(?m)^(E: |npm (ERR!|error) |go: ).*$`)

// explained adds the first line of a program's output that explains the failure to an error, instead of all output.
func explained(err error, out []byte) error {
	if err == nil {
		return nil
	}
	why := errorLine.FindAllString(string(out), 3)
	if len(why) == 0 {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		why = lines[len(lines)-1:]
	}
	return fmt.Errorf("%w: %s", err, strings.Join(why, "; "))
}
