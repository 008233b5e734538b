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

// Install brings what the servers of this package need and what is missing: all of Debian's packages at once, what is built
// from source, and what comes by npm. It takes a minute or two on a new machine. Tests install what they need themselves;
// those that look for something meanwhile wait until Install has it. Its errors are those that the tests fail with.
func Install() error {
	built := make(chan error, 1)
	go func() { // which needs the processor, while apt-get needs the network
		_, nats := buildTool("nats-server", natsMod, natsSum)
		_, stripe := buildTool("stripe-mock", stripeMockMod, stripeMockSum)
		built <- errors.Join(nats, stripe)
	}()
	err := installMissing(allPrograms()...)
	if npm.lookUp() != "" {
		_, sqs := installSQS()
		err = errors.Join(err, sqs)
	}
	return errors.Join(err, <-built)
}

// aptInstall installs packages. It goes on, and keeps the lock, if this process is killed.
func aptInstall(lock *os.File, packages []string) error {
	args := append([]string{"-c", installScript, "install", "/usr/sbin/policy-rc.d"}, packages...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.ExtraFiles = []*os.File{lock}
	detach(cmd, account{})
	out, err := cmd.CombinedOutput()
	return explained(err, out)
}

// openLocked opens a file that says who may install, and waits until it is this process.
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

// An error message of apt-get, npm or go.
var errorLine = regexp.MustCompile(`(?m)^(E: |npm (ERR!|error) |go: ).*$`)

// explained adds to an error the first line in which the output of a program says why, in place of all of it.
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
