package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// pythonVersion matches the version of the Python library in its file.
var pythonVersion = regexp.MustCompile(`(?m)^__version__ = ".*"$`)

// python writes the wheel and the source distribution of clients/python into dist, with the interpreter that has the
// modules build and hatchling.
func (p *packager) python(ctx context.Context, dist, interpreter string) error {
	temp, err := os.MkdirTemp("", "retrysafe-python-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := os.CopyFS(temp, os.DirFS(filepath.Join(p.tree, "clients/python"))); err != nil {
		return err
	}
	name := filepath.Join(temp, "retrysafe.py")
	module, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if found := pythonVersion.FindAll(module, -1); len(found) != 1 {
		return fmt.Errorf("clients/python/retrysafe.py has %d lines with __version__; want 1", len(found))
	}
	line := fmt.Sprintf("__version__ = %q", strings.TrimPrefix(p.version, "v"))
	if err := writeFile(name, pythonVersion.ReplaceAll(module, []byte(line))); err != nil {
		return err
	}
	if dist, err = filepath.Abs(dist); err != nil {
		return err
	}
	// -x: the hatchling of Debian lacks what editable installs need.
	_, err = command(ctx, temp, append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", p.time.Unix())),
		interpreter, "-m", "build", "-x", "--no-isolation", "--outdir", dist, ".")
	return err
}
