package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
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

// all writes into dist every package of the binaries and of the clients, the chart, and what each binary contains.
func (p *packager) all(ctx context.Context, dist string, binaries map[target][]byte, python string) error {
	for t, binary := range binaries {
		bom, err := p.sbom(binary, t.file(p.version)+t.suffix())
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dist, t.file(p.version)+".cdx.json"), bom); err != nil {
			return err
		}
		if t.os != "linux" {
			continue
		}
		for _, pack := range []func([]byte, string) (string, []byte, error){p.deb, p.rpm, p.image} {
			name, data, err := pack(binary, t.arch)
			if err != nil {
				return err
			}
			if err := writeFile(filepath.Join(dist, name), data); err != nil {
				return err
			}
		}
	}
	name, data, err := p.chart()
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dist, name), data); err != nil {
		return err
	}
	if err := p.npm(ctx, dist, binaries); err != nil {
		return err
	}
	return p.python(ctx, dist, python)
}

// installed is a file that a package installs, or a folder.
type installed struct {
	name string // the absolute path; a folder's ends with a slash
	mode int64
	data []byte
	user int // 0 is root
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
		{"/usr/bin/retrysafe", 0o755, binary, 0},
		{"/usr/lib/systemd/system/retrysafe.service", 0o644, unit, 0},
		{"/etc/retrysafe/proxy.yaml", 0o644, config, 0},
		{"/usr/share/man/man1/retrysafe.1.gz", 0o644, compress([]byte(p.man + "\n")), 0},
		{"/usr/share/bash-completion/completions/retrysafe", 0o644, []byte(p.completions["bash"] + "\n"), 0},
		{zshFolder + "/_retrysafe", 0o644, []byte(p.completions["zsh"] + "\n"), 0},
		{"/usr/share/fish/vendor_completions.d/retrysafe.fish", 0o644, []byte(p.completions["fish"] + "\n"), 0},
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

// compress returns the data as a gzip file without a name and a time. The library has the version that go.mod names,
// and the same bytes for the same data, whichever version of Go runs the release. Debian wants the smallest documents;
// for archives with the program that takes six times as long, and saves 3 %.
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

// tarball returns a tar file with the files and the folders above them, all below the prefix.
func (p *packager) tarball(prefix string, files []installed) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	written := map[string]bool{}
	var add func(f installed) error
	add = func(f installed) error {
		if written[f.name] {
			return nil
		}
		written[f.name] = true
		if f.name != "/" {
			parent := strings.TrimSuffix(path.Dir(strings.TrimSuffix(f.name, "/")), "/") + "/"
			if err := add(installed{name: parent, mode: 0o755}); err != nil {
				return err
			}
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: strings.TrimPrefix(prefix+f.name, "/"), Mode: f.mode, Size: int64(len(f.data)),
			Uid: f.user, Gid: f.user, ModTime: p.time, Format: tar.FormatGNU,
		}
		if strings.HasSuffix(f.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if header.Name == "" {
			return nil // the root of an image
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err := w.Write(f.data)
		return err
	}
	for _, f := range files {
		if err := add(f); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
