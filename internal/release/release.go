package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// target is a system for which binaries are built.
type target struct{ os, arch string }

// targets are the systems with binaries in a release. The file names end in them.
var targets = []target{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"},
}

// release is one version of all public modules, the command's binaries, and packages of the command and the clients.
type release struct {
	checkout string // the released working tree; only dist/VERSION and the tags are added
	version  string
	targets  []target
	dryRun   bool
	key      string // the file of the private key that signs the checksums; only a dry run needs none
	python   string // an interpreter with the modules build and hatchling
	out      io.Writer
}

// make makes the release.
func (r *release) make(ctx context.Context) error {
	if err := r.check(ctx); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "retrysafe-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	tags, err := r.prepare(ctx, temp)
	if err != nil {
		return err
	}
	return r.publish(ctx, temp, tags)
}

// prepare makes the release in temp, tests it as a user would, and returns the tags. Afterwards temp has a clone of
// the repository in "clone", with the tags, the modules in "proxy", the binaries and packages in "dist".
func (r *release) prepare(ctx context.Context, temp string) (tags []string, err error) {
	modules, err := r.packModules(ctx, temp)
	if err != nil {
		return nil, err
	}
	if err := r.build(ctx, temp, modules); err != nil {
		return nil, err
	}
	return r.sumAndTag(ctx, temp, modules)
}

// packModules clones the repository and writes the modules into the proxy.
func (r *release) packModules(ctx context.Context, temp string) ([]*mod, error) {
	clone := filepath.Join(temp, "clone")
	if err := r.clone(ctx, clone); err != nil {
		return nil, err
	}
	return packTree(clone, filepath.Join(temp, "proxy"), r.version)
}

// build uses the modules as a user would, and makes the binaries and packages.
func (r *release) build(ctx context.Context, temp string, modules []*mod) error {
	proxy, dist := filepath.Join(temp, "proxy"), filepath.Join(temp, "dist")
	fmt.Fprintf(r.out, "testing the %d modules with an empty module cache\n", len(modules))
	u, err := newUser(ctx, filepath.Join(temp, "user"), proxy, modules)
	if err != nil {
		return err
	}
	if err := u.triesOut(ctx, proxy, r.version, modules); err != nil {
		return err
	}
	binaries, err := r.binaries(ctx, u, modules, dist)
	if err != nil {
		return err
	}
	p, err := newPackager(ctx, filepath.Join(temp, "clone"), r.version, filepath.Join(u.dir, "go", "bin", "retrysafe"))
	if err != nil {
		return err
	}
	return p.all(ctx, dist, binaries, r.python)
}

// sumAndTag writes the checksums of what was built, and tags the modules.
func (r *release) sumAndTag(ctx context.Context, temp string, modules []*mod) (tags []string, err error) {
	if err := r.checksums(ctx, filepath.Join(temp, "dist")); err != nil {
		return nil, err
	}
	return r.tag(ctx, filepath.Join(temp, "clone"), modules)
}

// check returns an error that lists everything that prevents the release.
func (r *release) check(ctx context.Context) error {
	if err := checkVersion(r.version); err != nil {
		return err
	}
	var faults []error
	changed, err := r.git(ctx, r.checkout, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		faults = append(faults, fmt.Errorf("the checkout has changes that are not committed; commit or remove them:\n%s",
			changed))
	}
	tags, err := r.git(ctx, r.checkout, "tag", "--list", r.version, "*/"+r.version)
	if err != nil {
		return err
	}
	if tags != "" {
		faults = append(faults, fmt.Errorf("%s has been released, choose a higher version; these tags exist: %s",
			r.version, strings.Join(strings.Fields(tags), " ")))
	}
	changelog, err := os.ReadFile(filepath.Join(r.checkout, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	heading := "\n## [" + strings.TrimPrefix(r.version, "v") + "] - "
	if !strings.Contains(string(changelog), heading) {
		faults = append(faults, fmt.Errorf("CHANGELOG.md has no section for the version; it starts with %q and the date",
			strings.TrimSpace(heading)))
	}
	if r.key != "" {
		if err := r.checkKey(ctx); err != nil {
			faults = append(faults, fmt.Errorf("the key %s cannot sign the release: %w", r.key, err))
		}
	} else if !r.dryRun {
		faults = append(faults, errors.New("no key signs the release: name the file of the SSH key with KEY=FILE; "+
			"RELEASING.md says how to make one"))
	}
	return errors.Join(faults...)
}

// checkVersion refuses versions that the modules cannot have: from v2 on their paths would have to end in /v2, and
// upper-case letters would have to be escaped in file names.
func checkVersion(version string) error {
	canonical := version != "" && semver.Canonical(version) == version
	if canonical && semver.Compare(version, "v2.0.0-0") < 0 && strings.ToLower(version) == version {
		return nil
	}
	return fmt.Errorf("version %q: want vMAJOR.MINOR.PATCH below v2, in lower case, as in v0.1.0 or v0.2.0-rc.1", version)
}

// clone clones the repository of the checkout and checks out the same commit.
func (r *release) clone(ctx context.Context, clone string) error {
	commit, err := r.git(ctx, r.checkout, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	from, err := filepath.Abs(r.checkout)
	if err != nil {
		return err
	}
	if _, err := r.git(ctx, r.checkout, "clone", "--quiet", "--no-checkout", "--shared", from, clone); err != nil {
		return err
	}
	for _, setting := range []string{"user.name", "user.email"} { // may be set only for the checkout
		if value, err := r.git(ctx, r.checkout, "config", setting); err == nil {
			if _, err := r.git(ctx, clone, "config", setting, value); err != nil {
				return err
			}
		}
	}
	_, err = r.git(ctx, clone, "checkout", "--quiet", "--detach", commit)
	return err
}

// binaries builds the command for each target, exactly as "go install" of the released version does.
func (r *release) binaries(ctx context.Context, u *user, modules []*mod, dist string) (map[target][]byte, error) {
	m := modules[slices.IndexFunc(modules, func(m *mod) bool { return m.folder == commandFolder })]
	binaries := map[target][]byte{}
	for _, t := range r.targets {
		built, err := u.installs(ctx, m, r.version, t)
		if err != nil {
			return nil, err
		}
		info, err := buildinfo.ReadFile(built)
		if err != nil {
			return nil, err
		}
		if info.Main.Version != r.version {
			return nil, fmt.Errorf("%s reports the version %q, want %s", built, info.Main.Version, r.version)
		}
		if binaries[t], err = os.ReadFile(built); err != nil {
			return nil, err
		}
		name := filepath.Join(dist, t.file(r.version)+t.suffix())
		if err := writeFile(name, binaries[t]); err != nil {
			return nil, err
		}
		if err := os.Chmod(name, 0o755); err != nil {
			return nil, err
		}
	}
	return binaries, nil
}

// checksums writes the checksums of all files in dist, prints them, and signs them if there is a key.
func (r *release) checksums(ctx context.Context, dist string) error {
	files, err := os.ReadDir(dist)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dist, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), f.Name())
	}
	fmt.Fprint(r.out, sums.String())
	if err := writeFile(filepath.Join(dist, sumsFile), []byte(sums.String())); err != nil {
		return err
	}
	if r.key == "" { // in a dry run
		fmt.Fprintf(r.out, "%s was not signed, because no key was named with KEY=FILE\n", sumsFile)
		return nil
	}
	return r.sign(ctx, dist)
}

// file is the name of the binary for the target, without the suffix of programs.
func (t target) file(version string) string {
	return strings.Join([]string{"retrysafe", version, t.os, t.arch}, "-")
}

func (t target) suffix() string {
	if t.os == "windows" {
		return ".exe"
	}
	return ""
}

// tag commits the go.mod and go.sum files of the release in the clone and tags the commit for each module, after the
// modules that it requires. It returns the tags in this order.
func (r *release) tag(ctx context.Context, clone string, modules []*mod) ([]string, error) {
	if _, err := r.git(ctx, clone, "add", "--", ":(glob)**/go.mod", ":(glob)**/go.sum"); err != nil {
		return nil, err
	}
	message := "release: " + r.version + "\n\nThe modules require each other at this version."
	if _, err := r.git(ctx, clone, "commit", "--quiet", "-m", message); err != nil {
		return nil, err
	}
	var tags []string
	for _, m := range modules {
		tag := path.Join(m.folder, r.version)
		if _, err := r.git(ctx, clone, "tag", "-a", "-m", m.path()+" "+r.version, tag); err != nil {
			return nil, err
		}
		tags = append(tags, tag)
	}
	changes, err := r.git(ctx, clone, "show", "--stat", "--format=commit %h: %s", "HEAD")
	fmt.Fprintf(r.out, "%s\ntags: %s\n", changes, strings.Join(tags, " "))
	return tags, err
}

// publish copies the binaries and the tags from temp into the checkout, unless this is a dry run, and prints the
// remaining steps.
func (r *release) publish(ctx context.Context, temp string, tags []string) error {
	if r.dryRun {
		fmt.Fprintf(r.out, "dry run: %s can be released; nothing was changed\n", r.version)
		return nil
	}
	to := filepath.Join(r.checkout, "dist", r.version)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(to, os.DirFS(filepath.Join(temp, "dist"))); err != nil {
		return err
	}
	push := append([]string{"push", "--quiet", "--atomic", "origin"}, tags...)
	if _, err := r.git(ctx, filepath.Join(temp, "clone"), push...); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "the tags are in this repository and the binaries in dist/%s; to publish the tags:\n"+
		"  git push --atomic origin %s\n", r.version, strings.Join(tags, " "))
	return nil
}

func (r *release) git(ctx context.Context, dir string, args ...string) (string, error) {
	return command(ctx, dir, nil, "git", args...)
}
