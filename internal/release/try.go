package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// triesOut uses the modules in a proxy as users will: it installs and runs the command, and builds and runs a program
// that imports every importable package.
func (u *user) triesOut(ctx context.Context, proxy, version string, modules []*mod) error {
	if err := checkGoMods(proxy, version, modules); err != nil {
		return err
	}
	for _, m := range modules {
		if path.Dir(m.folder) != "cmd" {
			continue
		}
		name, err := u.installs(ctx, m, version, target{runtime.GOOS, runtime.GOARCH})
		if err != nil {
			return err
		}
		output, err := command(ctx, u.dir, u.env, name, "version")
		if err != nil {
			return err
		}
		if !slices.Contains(strings.Fields(output), version) {
			return fmt.Errorf("%s@%s was installed and reports the version %q", m.path(), version, output)
		}
	}
	return u.imports(ctx, modules, version)
}

// checkGoMods checks that the go.mod files in the proxy have no replace line and require each other at the version.
func checkGoMods(proxy, version string, modules []*mod) error {
	var faults []error
	for _, m := range modules {
		versions, err := m.versions(proxy)
		if err != nil {
			return err
		}
		name := filepath.Join(versions, version+".mod")
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := modfile.Parse(name, data, nil)
		if err != nil {
			return err
		}
		for _, r := range file.Replace {
			faults = append(faults, fmt.Errorf("%s: a released go.mod must not replace %s", name, r.Old.Path))
		}
		for _, r := range file.Require {
			if ours(root(modules).path(), r.Mod.Path) && r.Mod.Version != version {
				faults = append(faults, fmt.Errorf("%s requires %s %s; want %s", name, r.Mod.Path, r.Mod.Version, version))
			}
		}
	}
	return errors.Join(faults...)
}

// user is a user of the modules who has Go, a proxy that serves them, an empty module cache, no workspace, and
// nothing else of this repository.
type user struct {
	dir string
	env []string
}

// newUser returns a user whose files are below dir. Third-party modules come from this machine's module
// cache, and otherwise from this machine's GOPROXY.
func newUser(ctx context.Context, dir, proxy string, modules []*mod) (*user, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	proxy, err := filepath.Abs(proxy)
	if err != nil {
		return nil, err
	}
	known, err := command(ctx, dir, nil, "go", "env", "GOMODCACHE", "GOPROXY", "GOSUMDB")
	if err != nil {
		return nil, err
	}
	settings := strings.Split(known, "\n")
	proxies := []string{fileURL(proxy), fileURL(filepath.Join(settings[0], "cache", "download")), settings[1]}
	all := root(modules).path()
	return &user{dir: dir, env: append(os.Environ(),
		"GOENV=off",
		"GOWORK=off",
		"GOBIN=",
		"CGO_ENABLED=0",
		"GOPATH="+filepath.Join(dir, "go"),
		"GOMODCACHE="+filepath.Join(dir, "modules"),
		"GOPROXY="+strings.Join(proxies, ","),
		"GOSUMDB="+settings[2],
		"GONOSUMDB="+all+","+all+"/*", // the checksum database does not have the version yet
		// -trimpath makes object files independent of the path of the module cache, so that third-party modules are
		// compiled once per machine. -modcacherw allows removing the folder.
		"GOFLAGS=-trimpath -modcacherw",
	)}, nil
}

func fileURL(name string) string {
	return "file:///" + strings.TrimPrefix(filepath.ToSlash(name), "/")
}

// installs installs the command of a module, built for the target, and returns its file.
func (u *user) installs(ctx context.Context, m *mod, version string, t target) (string, error) {
	env := append(slices.Clone(u.env), "GOOS="+t.os, "GOARCH="+t.arch)
	if _, err := command(ctx, u.dir, env, "go", "install", "-ldflags=-s -w", m.path()+"@"+version); err != nil {
		return "", err
	}
	bin := filepath.Join(u.dir, "go", "bin")
	if t.os != runtime.GOOS || t.arch != runtime.GOARCH {
		bin = filepath.Join(bin, t.os+"_"+t.arch)
	}
	return filepath.Join(bin, path.Base(m.folder)+t.suffix()), nil
}

// imports builds and runs a program that imports every package of the modules which can be imported.
func (u *user) imports(ctx context.Context, modules []*mod, version string) error {
	dir := filepath.Join(u.dir, "program")
	get := []string{"get"}
	for _, m := range modules {
		get = append(get, m.path()+"@"+version)
	}
	if err := writeFile(filepath.Join(dir, "go.mod"), []byte("module example.test/program\n")); err != nil {
		return err
	}
	if _, err := command(ctx, dir, u.env, "go", get...); err != nil {
		return err
	}
	// With -e, because a command in a module needs more than the module's packages, and the program has not got that.
	packages, err := command(ctx, dir, u.env, "go", "list", "-e",
		"-f", `{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}`, root(modules).path()+"/...")
	if err != nil {
		return err
	}
	var program strings.Builder
	program.WriteString("package main\n\nimport (\n")
	imported := map[string]bool{}
	for _, name := range strings.Fields(packages) {
		if !slices.Contains(strings.Split(name, "/"), "internal") {
			fmt.Fprintf(&program, "\t_ %q\n", name)
			imported[name] = true
		}
	}
	program.WriteString(")\n\nfunc main() { println(\"it runs\") }\n")
	for _, m := range modules { // a store or an adapter is the package in its module's folder
		if top, _, _ := strings.Cut(m.folder, "/"); top != "internal" && top != "cmd" && !imported[m.path()] {
			return fmt.Errorf("%s has no package that a program can import", m.path())
		}
	}
	if err := writeFile(filepath.Join(dir, "main.go"), []byte(program.String())); err != nil {
		return err
	}
	_, err = command(ctx, dir, u.env, "go", "run", ".")
	return err
}

// command runs a program and returns its standard output, without white space around it. The error has what it wrote to
// standard error.
func command(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, env
	var complaint strings.Builder
	c.Stderr = &complaint
	output, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(string(output)), nil
}
