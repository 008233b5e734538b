package servers

import (
	"os"
	"os/exec"
	"path/filepath"
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
		check(t, os.WriteFile(filepath.Join(bin, "x"), nil, 0o700))
	}
	got := program{paths: []string{dir + "/*/bin/x"}}.lookUp()
	if want := filepath.Join(dir, "15/bin/x"); got != want {
		t.Errorf("lookUp = %s, want %s", got, want)
	}
}

func TestMissingSaysWhatToDo(t *testing.T) {
	t.Parallel()
	got := program{pkg: "redis-server", instead: "set URL"}.missing().Error()
	for _, part := range []string{"sudo apt-get install --no-install-recommends redis-server", "set URL"} {
		if !strings.Contains(got, part) {
			t.Errorf("the error is %q, want %q in it", got, part)
		}
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
	i := newInstallation(t, `echo "$*" >>"$CALLS"; case $* in *update*) touch "$CALLS.new" ;; *) [ -e "$CALLS.new" ] ;; esac`)
	check(t, i.run())
	calls := strings.Split(i.read(i.calls), "\n")
	if len(calls) != 4 || !strings.Contains(calls[1], "update") || !strings.HasSuffix(calls[2], "some-package") {
		t.Errorf("apt-get was called with %q", calls)
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

// installation runs install.sh with another apt-get.
type installation struct {
	*testing.T
	bin, policy, calls string
}

func newInstallation(t *testing.T, aptGet string) *installation {
	dir := t.TempDir()
	i := &installation{T: t, bin: dir, policy: filepath.Join(dir, "policy"), calls: filepath.Join(dir, "calls")}
	check(t, os.WriteFile(filepath.Join(dir, "apt-get"), []byte("#!/bin/sh\n"+aptGet+"\n"), 0o700))
	return i
}

func (i *installation) run() error {
	cmd := exec.Command("/bin/sh", "-c", installScript, "install", i.policy, "some-package")
	cmd.Env = append(os.Environ(), "PATH="+i.bin+":"+os.Getenv("PATH"), "POLICY="+i.policy, "CALLS="+i.calls)
	return cmd.Run()
}

// read returns what is in the file; nothing if there is none.
func (i *installation) read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		i.Fatal(err)
	}
	return string(b)
}
