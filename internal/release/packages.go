package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// packagesFolder has what only the packages of Linux distributions need: scripts, a configuration, a copyright notice.
const packagesFolder = "deploy/packages"

const (
	maintainer  = "Retrysafe maintainers <retrysafe@users.noreply.github.com>"
	homepage    = "https://github.com/retrysafe/retrysafe"
	summary     = "makes HTTP APIs safe to retry, by idempotency keys"
	description = "A reverse proxy that runs a request with an idempotency key at most once, and\n" +
		"sends every retry the same answer. The command also tests APIs from outside,\n" +
		"runs jobs at most once, and shows and resolves keys."
)

// packager makes the packages of one release. Their bytes depend only on its fields and on the binaries.
type packager struct {
	tree    string // the released files
	version string
	time    time.Time // of the released commit
	man     string
	// completions has the scripts by the names of their shells.
	completions map[string]string
}

// newPackager asks the program, which runs on this machine, for its manual page and its completions.
func newPackager(ctx context.Context, tree, version, program string) (*packager, error) {
	p := &packager{tree: tree, version: version, completions: map[string]string{}}
	committed, err := command(ctx, tree, nil, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseInt(committed, 10, 64)
	if err != nil {
		return nil, err
	}
	p.time = time.Unix(seconds, 0).UTC()
	if p.man, err = command(ctx, tree, nil, program, "man"); err != nil {
		return nil, err
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if p.completions[shell], err = command(ctx, tree, nil, program, "completion", shell); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// installed is a file that a package installs.
type installed struct {
	name string // the absolute path
	mode int64
	data []byte
}

// isConfig reports whether an upgrade must keep what the administrator has changed in the file.
func (f installed) isConfig() bool { return strings.HasPrefix(f.name, "/etc/") }

// read returns a file of packagesFolder.
func (p *packager) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(p.tree, packagesFolder, name))
}

// files returns what both the deb and the rpm install.
func (p *packager) files(binary []byte, zshFolder string) ([]installed, error) {
	unit, err := p.unit()
	if err != nil {
		return nil, err
	}
	config, err := p.read("proxy.yaml")
	if err != nil {
		return nil, err
	}
	return []installed{
		{"/usr/bin/retrysafe", 0o755, binary},
		{"/usr/lib/systemd/system/retrysafe.service", 0o644, unit},
		{"/etc/retrysafe/proxy.yaml", 0o644, config},
		{"/usr/share/man/man1/retrysafe.1.gz", 0o644, compress([]byte(p.man + "\n"))},
		{"/usr/share/bash-completion/completions/retrysafe", 0o644, []byte(p.completions["bash"] + "\n")},
		{zshFolder + "/_retrysafe", 0o644, []byte(p.completions["zsh"] + "\n")},
		{"/usr/share/fish/vendor_completions.d/retrysafe.fish", 0o644, []byte(p.completions["fish"] + "\n")},
	}, nil
}

// unit returns the systemd unit of the repository, with the program where packages install it, and with the user that
// they create in place of one that exists only while the service runs.
func (p *packager) unit() ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(p.tree, "deploy/retrysafe.service"))
	if err != nil {
		return nil, err
	}
	unit := string(data)
	for _, change := range [][2]string{
		{"\nExecStart=/usr/local/bin/", "\nExecStart=/usr/bin/"},
		{"\nDynamicUser=yes\n", "\nUser=retrysafe\nGroup=retrysafe\n"},
	} {
		if strings.Count(unit, change[0]) != 1 {
			return nil, fmt.Errorf("deploy/retrysafe.service does not have %q once", change[0])
		}
		unit = strings.Replace(unit, change[0], change[1], 1)
	}
	return []byte(unit), nil
}

// number returns the version as Debian and RPM compare it: 0.2.0~rc.1 is before 0.2.0.
func (p *packager) number() string {
	return strings.Replace(strings.TrimPrefix(p.version, "v"), "-", "~", 1)
}

// compress returns the data as a gzip file without a name and a time. The library has the version that go.mod names, and
// the same bytes for the same data, whichever version of Go runs the release. Debian wants the smallest documents; for
// archives with the program that would take three times as long, to save a hundredth.
func compress(data []byte) []byte {
	level := gzip.BestCompression
	if len(data) > 1<<20 {
		level = gzip.DefaultCompression
	}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, level) // the level is valid, and a buffer accepts every write
	w.ModTime = time.Unix(0, 0)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}
