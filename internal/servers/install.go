package servers

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

//go:embed install.sh
var installScript string

// program is a file that a test needs: where it may be, and what brings it.
type program struct {
	name    string   // looked for in $PATH, unless empty
	paths   []string // patterns of filepath.Glob, tried next
	pkg     string   // Debian's package that has it
	instead string   // what else helps whoever cannot install it; may be empty
}

// findProgram returns the path of the program, and installs it if it is missing and can be installed.
func findProgram(p program) (string, error) {
	if path := p.lookUp(); path != "" {
		return path, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		return "", p.missing()
	}
	return p.install()
}

func (p program) lookUp() string {
	if path, err := exec.LookPath(p.name); err == nil {
		return path
	}
	for _, pattern := range p.paths {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		slices.SortFunc(found, byVersion)
		if len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// byVersion puts the newest of /usr/lib/postgresql/9/bin/x and /usr/lib/postgresql/15/bin/x first.
func byVersion(a, b string) int { return pathVersion(b) - pathVersion(a) }

func pathVersion(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 for no number
	return n
}

func (p program) missing() error {
	err := fmt.Errorf("servers: this test needs Debian's package %s; it installs it itself only as root: "+
		"sudo apt-get install --no-install-recommends %s", p.pkg, p.pkg)
	if p.instead != "" {
		err = fmt.Errorf("%w (or %s)", err, p.instead)
	}
	return err
}

// install installs the package, one test process at a time.
func (p program) install() (string, error) {
	lock, err := os.OpenFile("/run/retrysafe-install.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := lockFile(lock); err != nil {
		return "", err
	}
	if path := p.lookUp(); path != "" { // somebody else has just installed it
		return path, nil
	}
	cmd := exec.Command("/bin/sh", "-c", installScript, "install", "/usr/sbin/policy-rc.d", p.pkg)
	cmd.ExtraFiles = []*os.File{lock}
	detach(cmd, account{})
	out, err := cmd.CombinedOutput()
	path := p.lookUp()
	if err == nil && path == "" {
		err = errors.New("it is not in the package")
	}
	if err != nil {
		return "", fmt.Errorf("%w: installing it failed: %w\n%s", p.missing(), err, out)
	}
	return path, nil
}
