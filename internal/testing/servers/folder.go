package servers

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed watchdog.sh
var watchdogScript string

// folder is the temporary folder of one instance, with the watchdog that ends the processes in it and then removes
// it: when the folder is closed, or when the test process exits without closing it.
type folder struct {
	path  string
	owner account
	hold  *os.File // the watchdog waits until this is closed
	dog   *exec.Cmd
}

// newFolder makes a folder that belongs to the owner. See watchdog.sh for endSignal and epilogue.
func newFolder(name string, owner account, endSignal, epilogue string) (*folder, error) {
	if _, err := findProgram(ps); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(shortTempDir(), "retrysafe-"+name+"-")
	if err != nil {
		return nil, err
	}
	f := &folder{path: path, owner: owner}
	if err := errors.Join(owner.own(path), f.watch(endSignal, epilogue)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return f, nil
}

// shortTempDir returns a temporary folder with a path so short that a socket's path fits into the 104 to 108 bytes
// that systems allow.
func shortTempDir() string {
	if dir := os.TempDir(); len(dir) <= 60 {
		return dir
	}
	return "/tmp"
}

func (f *folder) watch(endSignal, epilogue string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	f.dog = exec.Command("/bin/sh", "-c", watchdogScript, "watchdog", f.path, endSignal, epilogue)
	f.dog.Stdin, f.dog.Dir = r, f.path
	detach(f.dog, account{}) // a Ctrl-C that ends the test process must not end its watchdog
	if err := f.dog.Start(); err != nil {
		return errors.Join(fmt.Errorf("servers: start the watchdog: %w", err), w.Close())
	}
	f.hold = w
	return nil
}

// close ends the processes in the folder, and removes it.
func (f *folder) close() error {
	if err := f.hold.Close(); err != nil {
		return err
	}
	if err := f.dog.Wait(); err != nil {
		return fmt.Errorf("servers: remove %s: %w", f.path, err)
	}
	return nil
}

// register makes the program send its process ID to the watchdog before it begins, so that the watchdog knows of
// every running program. The variables in env are for the program alone, not for this shell.
const register = `echo $$ >&3; exec env "$@" 3>&-`

// spawn starts a program in the folder, as the folder's owner; its output is appended to the log. Its arguments may
// begin with variables for its environment.
func (f *folder) spawn(args ...string) (*process, error) {
	log, err := os.OpenFile(f.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command("/bin/sh", append([]string{"-c", register, "sh"}, args...)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, f.path
	cmd.Env = environment()
	cmd.ExtraFiles = []*os.File{f.hold}
	detach(cmd, f.owner)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("servers: start %s: %w", args[0], err)
	}
	p := &process{pid: cmd.Process.Pid, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// run runs a program to its end. The output is part of the error if it fails.
func (f *folder) run(args ...string) error {
	p, err := f.spawn(args...)
	if err != nil {
		return err
	}
	if err := errors.Join(p.wait(), f.forget()); err != nil {
		return fmt.Errorf("servers: %s: %w\n%s", filepath.Base(args[0]), err, f.logTail())
	}
	return os.Truncate(f.log(), 0)
}

// forget tells the watchdog that no process runs.
func (f *folder) forget() error {
	_, err := f.hold.WriteString("0\n")
	return err
}

func (f *folder) log() string { return filepath.Join(f.path, "log") }

// logTail returns the end of the log, formatted for an error message.
func (f *folder) logTail() string {
	log, err := os.ReadFile(f.log())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return "the log ends with:\n\t" + strings.Join(lines[max(0, len(lines)-30):], "\n\t")
}

// environment returns the environment of this process, without variables that redirect the tools of PostgreSQL and
// MariaDB, and with messages in English.
func environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		return slices.ContainsFunc([]string{"PG", "MYSQL_", "MARIADB_", "LC_ALL="}, func(prefix string) bool {
			return strings.HasPrefix(e, prefix)
		})
	})
	return append(env, "LC_ALL=C")
}
