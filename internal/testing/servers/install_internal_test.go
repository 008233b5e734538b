package servers

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Seen to fail with the paths sorted as text.
func TestNewestVersionIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, version := range []string{"9", "15", "14"} {
		bin := filepath.Join(dir, version, "bin")
		check(t, os.MkdirAll(bin, 0o700))
		check(t, writeProgram(filepath.Join(bin, "x"), nil))
	}
	got := program{paths: []string{dir + "/*/bin/x"}}.lookUp()
	if want := filepath.Join(dir, "15/bin/x"); got != want {
		t.Errorf("lookUp = %s, want %s", got, want)
	}
}

// If a package cannot be installed, the error is one line that says what to install: for a user who is not root, and
// on a system without apt-get.
//
// Seen to fail with the user, and with apt-get, not checked: the error was that of the lock, and that of the shell.
func TestMissingSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for who, a := range map[string]account{
		"not root":         {uid: 65534, gid: 65534, other: os.Getuid() == 0},
		"no apt-get there": {},
	} {
		dir := reachable(t)
		check(t, copyProgram(os.Args[0], filepath.Join(dir, "test")))
		cmd := exec.Command(filepath.Join(dir, "test"))
		path := dir
		if a.other {
			path = os.Getenv("PATH")
		}
		cmd.Dir, cmd.Env = dir, []string{childVariable + "=missing", "PATH=" + path}
		detach(cmd, a)
		out, err := cmd.CombinedOutput()
		want := ": sudo apt-get install --no-install-recommends some-package other-package (or set URL)\n"
		if got := string(out); err != nil || strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, want) {
			t.Errorf("%s: the error is %q, %v; want one line that ends with %q", who, got, err, want)
		}
	}
}

// reachable returns a folder that all users can read; t.TempDir is closed to other users.
func reachable(t *testing.T) string {
	dir, err := os.MkdirTemp("", "retrysafe-test-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	return dir
}

// Seen to fail with the whole output returned.
func TestErrorsOfInstallersAreOneLine(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]string{
		"Reading package lists...\nE: Unable to locate package x\nE: y\n": "boom: E: Unable to locate package x; E: y",
		"npm warn old\nnpm error code ENOTFOUND\nmore\n":                  "boom: npm error code ENOTFOUND",
		"some words\nthe last words\n":                                    "boom: the last words",
	} {
		if got := explained(errors.New("boom"), []byte(out)).Error(); got != want {
			t.Errorf("explained = %q, want %q", got, want)
		}
	}
}

// Seen to fail with the lock's message not recognised.
func TestInstallWaitsForAnotherAptGet(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, `echo "$*" >>"$CALLS"; [ -e "$CALLS.tried" ] || {
		touch "$CALLS.tried"; echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by 1 (apt)' >&2
		exit 100; }`)
	i.put("sleep", "")
	check(t, i.run())
	calls := strings.Split(i.read(i.calls), "\n")
	if len(calls) != 3 || calls[0] != calls[1] || strings.Contains(calls[0], "update") {
		t.Errorf("apt-get was called with %q", calls)
	}
}

// Seen to fail with the policy not written, not removed, written over another's, and ours taken for another's.
func TestInstallStartsNoServices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, before, during, after string }{
		{"no policy", "", "exit 101\n", ""},
		{"ours, left behind", "# retrysafe: while test servers are installed\nexit 101\n", "exit 101\n", ""},
		{"the machine's own", "exit 0\n", "exit 0\n", "exit 0\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newInstallation(t, `cat "$POLICY" >>"$CALLS"`)
			if c.before != "" {
				check(t, os.WriteFile(i.policy, []byte(c.before), 0o700))
			}
			check(t, i.run())
			if got := i.read(i.calls); !strings.HasSuffix(got, c.during) {
				t.Errorf("while installing, the policy is %q, want %q", got, c.during)
			}
			if got := i.read(i.policy); got != c.after {
				t.Errorf("after installing, the policy is %q, want %q", got, c.after)
			}
		})
	}
}

// Seen to fail with the second try taken out.
func TestInstallUpdatesTheListsWhenAPackageIsNotFound(t *testing.T) {
	t.Parallel()
	i := newInstallation(t,
		`echo "$*" >>"$CALLS"; case $* in *update*) touch "$CALLS.new" ;; *) [ -e "$CALLS.new" ] ;; esac`)
	check(t, i.run())
	calls := strings.Split(i.read(i.calls), "\n")
	if len(calls) != 4 || !strings.Contains(calls[1], "update") || !strings.HasSuffix(calls[2], "some-package") {
		t.Errorf("apt-get was called with %q", calls)
	}
}

// A package that a release has only in its backports comes from there, and the machine's own sources stay as they are.
// Seen to fail with backports not called, and with the release's other suites taken for releases.
func TestInstallLooksIntoBackports(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, `case $* in
		*indextargets*) printf '%s\n' 'http://a/debian/ old' 'http://a/security/ old-security' ;;
		*sourcelist=*) l=${*#*sourcelist=}; grep backports "${l%% *}" >>"$CALLS" ;;
		*) [ "${*#*update}" != "$*" ] ;; esac`)
	check(t, i.run())
	if got, want := i.read(i.calls), "deb http://a/debian/ old-backports main\n"; got != want+want {
		t.Errorf("apt-get was called with the sources %q, want twice %q", got, want)
	}
}

// Seen to fail with the trap taken out.
func TestInstallThatFailsLeavesNoPolicy(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, "exit 100")
	if i.run() == nil {
		t.Error("no error")
	}
	if got := i.read(i.policy); got != "" {
		t.Errorf("the policy is %q", got)
	}
}

// installation runs install.sh with a fake apt-get.
type installation struct {
	*testing.T
	bin, policy, calls string
}

func newInstallation(t *testing.T, aptGet string) *installation {
	dir := t.TempDir()
	i := &installation{T: t, bin: dir, policy: filepath.Join(dir, "policy"), calls: filepath.Join(dir, "calls")}
	i.put("apt-get", aptGet)
	return i
}

// put puts a script in front of the program with that name.
func (i *installation) put(name, script string) {
	check(i, writeProgram(filepath.Join(i.bin, name), []byte("#!/bin/sh\n"+script+"\n")))
}

func (i *installation) run() error {
	cmd := exec.Command("/bin/sh", "-c", installScript, "install", i.policy, "some-package")
	cmd.Env = append(os.Environ(), "PATH="+i.bin+":"+os.Getenv("PATH"), "POLICY="+i.policy, "CALLS="+i.calls)
	return cmd.Run()
}

// read returns the content of the file, or nothing if there is none.
func (i *installation) read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		i.Fatal(err)
	}
	return string(b)
}

// A Python that lacks a module is passed over, and what to install is one package for each module. Seen to fail with
// imports taken out of lookUp.
func TestPythonThatLacksAModuleIsNotFound(t *testing.T) {
	path, err := findProgram(python)
	check(t, err)
	if got := pythonWith("json", "venv").lookUp(); got != path {
		t.Errorf("lookUp = %q, want %q", got, path)
	}
	without := pythonWith("json", "no_such_module", "ensurepip")
	if got := without.lookUp(); got != "" {
		t.Errorf("lookUp = %q, want nothing", got)
	}
	want := []string{"python3-json", "python3-no-such-module", "python3-venv"}
	if got := packages([]program{without}); !slices.Equal(got, want) {
		t.Errorf("packages = %q, want %q", got, want)
	}
}
