package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// pack writes every public module of the working tree in dir into out, a module proxy in files, and returns the
// version and the modules. If version is empty, pack derives one from the contents.
func pack(ctx context.Context, dir, out, version string) (string, []*mod, error) {
	tree, err := os.MkdirTemp("", "retrysafe-pack-")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(tree)
	sum, err := copyWorkingTree(ctx, dir, tree, out)
	if err != nil {
		return "", nil, err
	}
	if version == "" {
		version = "v0.0.0-pack." + sum
	}
	if err := checkVersion(version); err != nil {
		return "", nil, err
	}
	modules, err := packTree(tree, out, version)
	return version, modules, err
}

// copyWorkingTree copies the files that git tracks or would track, in their current state, except those in the folder
// except. It returns the start of a hash of their contents.
func copyWorkingTree(ctx context.Context, from, to, except string) (sum string, err error) {
	names, err := command(ctx, from, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return "", err
	}
	if from, err = filepath.Abs(from); err != nil {
		return "", err
	}
	if except, err = filepath.Abs(except); err != nil {
		return "", err
	}
	var copied []string
	for _, name := range strings.Split(strings.TrimSuffix(names, "\x00"), "\x00") {
		source := filepath.Join(from, name)
		switch info, err := os.Lstat(source); {
		case os.IsNotExist(err) || strings.HasPrefix(source, except+string(filepath.Separator)):
			continue // deleted but not yet committed; or from an earlier pack
		case err != nil:
			return "", err
		case info.Mode().IsRegular(): // modules contain only regular files
			if err := copyFile(source, filepath.Join(to, name)); err != nil {
				return "", err
			}
			copied = append(copied, filepath.ToSlash(name))
		}
	}
	sum, err = dirhash.Hash1(copied, func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(to, name)) })
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("h%x", sha256.Sum256([]byte(sum)))[:13], nil // the letter avoids a number with a leading 0
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeFile(to, data)
}

// writeFile writes a file, and creates its folder if necessary.
func writeFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// packTree turns the go.mod and go.sum files of the public modules in tree into those of the release, and writes the
// modules into out. It returns them in the order of writing: each after those that it requires, because its go.sum
// contains their hashes.
func packTree(tree, out, version string) ([]*mod, error) {
	modules, err := publicModules(tree)
	if err != nil {
		return nil, err
	}
	sums := map[*mod]string{} // the lines of go.sum for a module and for its requirements in this repository
	for _, m := range modules {
		var siblings strings.Builder
		for _, required := range m.siblings(modules) {
			siblings.WriteString(sums[required])
		}
		if err := m.setVersions(tree, modules, version, siblings.String()); err != nil {
			return nil, fmt.Errorf("%s: %w", m.folder, err)
		}
		own, err := m.write(tree, out, version)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.folder, err)
		}
		sums[m] = siblings.String() + own
	}
	return modules, nil
}

// setVersions writes the module's go.mod and go.sum in tree as they are released: siblings have the version, and
// there is no replace line, because "go install PACKAGE@VERSION" refuses a module with one.
func (m *mod) setVersions(tree string, public []*mod, version, siblingSums string) error {
	for _, r := range slices.Clone(m.file.Replace) {
		if err := m.file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return err
		}
	}
	for _, sibling := range m.siblings(public) {
		if err := m.file.AddRequire(sibling.path(), version); err != nil {
			return err
		}
	}
	m.file.Cleanup()
	data, err := m.file.Format()
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(tree, m.folder, "go.mod"), data); err != nil {
		return err
	}
	if siblingSums == "" {
		return nil
	}
	name := filepath.Join(tree, m.folder, "go.sum")
	sums, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(sums)+siblingSums), "\n")
	slices.Sort(lines)
	return writeFile(name, []byte(strings.Join(slices.Compact(lines), "\n")+"\n"))
}

// write adds the module in tree to the proxy in out and returns its two lines of a go.sum. The proxy has no other
// version of the module, so @latest is this one.
func (m *mod) write(tree, out, version string) (sums string, err error) {
	folder := filepath.Join(tree, m.folder)
	license := filepath.Join(folder, "LICENSE")
	if _, err := os.Stat(license); os.IsNotExist(err) { // as the go command does it for modules below the root
		if err := copyFile(filepath.Join(tree, "LICENSE"), license); err != nil {
			return "", err
		}
	}
	var archive bytes.Buffer
	if err := zip.CreateFromDir(&archive, module.Version{Path: m.path(), Version: version}, folder); err != nil {
		return "", err
	}
	info, err := json.Marshal(map[string]string{"Version": version})
	if err != nil {
		return "", err
	}
	goMod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return "", err
	}
	versions, err := m.versions(out)
	if err != nil {
		return "", err
	}
	for name, data := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": info, version + ".mod": goMod, version + ".zip": archive.Bytes(),
	} {
		if err := writeFile(filepath.Join(versions, name), data); err != nil {
			return "", err
		}
	}
	modSum, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(goMod)), nil
	})
	if err != nil {
		return "", err
	}
	zipSum, err := dirhash.HashZip(filepath.Join(versions, version+".zip"), dirhash.DefaultHash)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%[1]s %[2]s %[3]s\n%[1]s %[2]s/go.mod %[4]s\n", m.path(), version, zipSum, modSum), nil
}

// versions returns the proxy's folder with the versions of the module.
func (m *mod) versions(proxy string) (string, error) {
	escaped, err := module.EscapePath(m.path())
	return filepath.Join(proxy, escaped, "@v"), err
}
