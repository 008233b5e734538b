package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

const (
	checkout = "../.."
	version  = "v0.0.1-rc.1"
)

// The tests read the whole repository. The go command does not see changes outside of this module and would repeat a
// cached result. It does not cache a test that has read a file which was just changed.
func TestMain(m *testing.M) {
	code := m.Run()
	now := time.Now()
	if _, err := os.ReadFile("go.mod"); err != nil || os.Chtimes("go.mod", now, now) != nil {
		code = 1
	}
	os.Exit(code)
}

// The modules are released from the files of the working tree, and downloaded from the repository by their tags. With
// RETRYSAFE_SOAK=2 they are also installed and imported from a proxy in files with an empty module cache, as each release
// is before it is published, the packages are made, and each module is built from the tagged commit.
//
// Seen to fail with setVersions leaving the replace lines, with setVersions leaving siblings at v0.0.0, without the
// LICENSE that the go command adds to modules below the root, with tags without the module's folder, with tags that are
// not looked for, and with a dry run that publishes. With RETRYSAFE_SOAK=2 also with kafkasafe not written to the proxy,
// with rpcsafe among the private modules, without the siblings' hashes in go.sum, and with another version in "retrysafe
// version".
func TestSoakRelease(t *testing.T) {
	repo, temp, whole := repository(t), t.TempDir(), soak.Times(t, 1) > 1
	r := &release{
		checkout: repo, version: version, targets: []target{{runtime.GOOS, runtime.GOARCH}}, out: io.Discard,
		key: signingKey(t, repo),
	}
	if err := r.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := state(t, repo)
	prepare, made := r.prepareModules, 3
	if whole {
		servers.NPM(t)
		r.python = servers.PythonWith(t, "build", "hatchling")
		prepare, made = r.prepare, 12
	}
	tags, err := prepare(t.Context(), temp)
	if err != nil {
		t.Fatal(err)
	}
	r.dryRun = true
	if err := r.publish(t.Context(), temp, tags); err != nil {
		t.Fatal(err)
	}
	if after := state(t, repo); after != before {
		t.Errorf("a dry run has changed the checkout from\n%s\nto\n%s", before, after)
	}

	r.dryRun = false
	if err := r.publish(t.Context(), temp, tags); err != nil {
		t.Fatal(err)
	}
	if got := do(t, repo, nil, "git", "rev-parse", "HEAD"); !strings.HasPrefix(before, got) {
		t.Errorf("the release has moved the checkout to %s", got)
	}
	if got := strings.Fields(do(t, repo, nil, "git", "tag")); !slices.Equal(slices.Sorted(slices.Values(tags)), got) {
		t.Errorf("the repository has the tags %q, want %q", got, tags)
	}
	dist := filepath.Join(repo, "dist", version)
	do(t, dist, nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	files, err := filepath.Glob(filepath.Join(dist, "*"))
	if err != nil || len(files) != made {
		t.Errorf("%v: the release has the files %q", err, files)
	}
	// Signatures were checked when they were made; that a change is noticed, here.
	edit(t, filepath.Join(dist, "SHA256SUMS"), "  ", " *")
	if _, err := command(t.Context(), dist, nil, "sh", "-c", "ssh-keygen -Y verify -f ../../deploy/allowed_signers "+
		"-I release@retrysafe -n file -s SHA256SUMS.sig <SHA256SUMS"); err == nil {
		t.Error("changed checksums have a valid signature")
	}
	if err := r.check(t.Context()); err == nil || !strings.Contains(err.Error(), "cmd/retrysafe/"+version) {
		t.Errorf("a second release of the version: %v; want an error that names the tags", err)
	}
	downloadByTag(t, repo, filepath.Join(temp, "proxy"), tags)
	if whole {
		buildTagged(t, temp)
	}
}

// prepareModules is prepare without the trial, and with one file in place of the binaries and packages.
func (r *release) prepareModules(ctx context.Context, temp string) (tags []string, err error) {
	modules, err := r.packModules(ctx, temp)
	if err != nil {
		return nil, err
	}
	if err := checkGoMods(filepath.Join(temp, "proxy"), r.version, modules); err != nil {
		return nil, err
	}
	if err := writeFile(filepath.Join(temp, "dist", "retrysafe"), nil); err != nil {
		return nil, err
	}
	return r.sumAndTag(ctx, temp, modules)
}

// buildTagged checks that the go.sum files of the tagged commit have all that a build of each module needs.
func buildTagged(t *testing.T, temp string) {
	clone, proxy := filepath.Join(temp, "clone"), filepath.Join(temp, "proxy")
	modules, err := publicModules(clone)
	if err != nil {
		t.Fatal(err)
	}
	u, err := newUser(t.Context(), filepath.Join(temp, "user"), proxy, modules)
	if err != nil {
		t.Fatal(err)
	}
	do(t, clone, nil, "git", "diff", "--exit-code")
	for _, m := range modules {
		do(t, filepath.Join(clone, m.folder), u.env, "go", "list", "-mod=readonly", "-deps", "./...")
	}
}

// downloadByTag lets the go command fetch the tagged modules from the repository, and compares them with those in the
// proxy, whose hashes are in the go.sum files of the release.
func downloadByTag(t *testing.T, repo, proxy string, tags []string) {
	modules, err := publicModules(repo)
	if err != nil {
		t.Fatal(err)
	}
	if len(tags) != len(modules) {
		t.Errorf("there are %d tags for %d modules", len(tags), len(modules))
	}
	u, err := newUser(t.Context(), t.TempDir(), proxy, modules)
	if err != nil {
		t.Fatal(err)
	}
	all := root(modules).path()
	env := append(u.env, "GONOPROXY="+all+","+all+"/*",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+fileURL(repo)+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+all)
	args := []string{"mod", "download", "-json"}
	want := map[string]string{}
	for _, m := range modules {
		args = append(args, m.path()+"@"+version)
		versions, err := m.versions(proxy)
		if err != nil {
			t.Fatal(err)
		}
		if want[m.path()], err = dirhash.HashZip(filepath.Join(versions, version+".zip"), dirhash.DefaultHash); err != nil {
			t.Fatal(err)
		}
	}
	downloaded := json.NewDecoder(strings.NewReader(do(t, u.dir, env, "go", args...)))
	for range modules {
		var got struct{ Path, Version, Sum string }
		if err := downloaded.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if got.Version != version || got.Sum != want[got.Path] {
			t.Errorf("the tag has %s %s with the hash %s; the go.sum files say %s",
				got.Path, got.Version, got.Sum, want[got.Path])
		}
	}
}

// Each refusal was seen to be missing with its check taken out.
func TestReleaseRefuses(t *testing.T) {
	repo := repository(t)
	check := func(version string) error { return (&release{checkout: repo, version: version}).check(t.Context()) }
	if err := check(version); err == nil || !strings.Contains(err.Error(), "KEY=FILE") {
		t.Errorf("a release that is not signed: %v", err)
	}
	first := filepath.Join(t.TempDir(), "key")
	do(t, repo, nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", first)
	unknown := &release{checkout: repo, version: version, key: first}
	if err := unknown.check(t.Context()); err == nil || !strings.Contains(err.Error(), "deploy/allowed_signers does not exist") {
		t.Errorf("a key before there is a list of them: %v", err)
	}
	signingKey(t, repo)
	stranger := &release{checkout: repo, version: version, key: signingKey(t, repository(t))}
	if err := stranger.check(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot sign") {
		t.Errorf("a key that users do not know: %v", err)
	}
	for _, malformed := range []string{"", "0.1.0", "v0.1", "v0.01.0", "v2.0.0", "v0.1.0+build", "v0.1.0-RC1", "latest"} {
		if err := check(malformed); err == nil || !strings.Contains(err.Error(), "want vMAJOR.MINOR.PATCH") {
			t.Errorf("version %q: %v", malformed, err)
		}
	}
	if err := check("v0.77.0"); err == nil || !strings.Contains(err.Error(), "## [0.77.0] -") {
		t.Errorf("a version that the changelog does not have: %v", err)
	}
	if err := os.WriteFile(filepath.Join(repo, "forgotten.go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := check(version); err == nil || !strings.Contains(err.Error(), "forgotten.go") {
		t.Errorf("a file that is not committed: %v", err)
	}
}

// Releases are built with the newest Go, whatever Go is installed. Seen to fail with RELEASED taken out of the target.
func TestReleasesAreBuiltWithTheNewestGo(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(checkout, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^release:.*\n\t@\$\(RELEASED\) go run `).Match(makefile) {
		t.Error("make release does not begin with $(RELEASED), which names the version of Go")
	}
}

// A dry run without a key says that it has signed nothing. Seen to fail with the message taken out of checksums.
func TestADryRunSaysWhatIsNotSigned(t *testing.T) {
	var out strings.Builder
	r := &release{version: version, dryRun: true, out: &out}
	if err := r.checksums(t.Context(), t.TempDir()); err != nil || !strings.Contains(out.String(), "SHA256SUMS was not signed") {
		t.Errorf("%v: it says %q", err, out.String())
	}
}

func TestModulesThatCannotBeReleased(t *testing.T) {
	for _, c := range []struct{ name, file, from, to, says string }{
		{
			"another module replaced", "grpcsafe/go.mod",
			"\nreplace ", "\nreplace google.golang.org/grpc => ../fork\n\nreplace ", "replaces google.golang.org/grpc",
		},
		{
			"a private module required", "grpcsafe/go.mod",
			"retrysafe/rpcsafe v0.0.0", "retrysafe/bench v0.0.0", "requires github.com/retrysafe/retrysafe/bench",
		},
		{
			"another version of Go", "stores/pgstore/go.mod",
			"\ngo 1.", "\ngo 1.1", "stores/pgstore/go.mod says go 1.1",
		},
		{
			"a name that does not match its folder", "stores/pgstore/go.mod",
			"/pgstore\n", "/postgres\n", "in its folder it must be",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := t.TempDir()
			if _, err := copyWorkingTree(t.Context(), checkout, tree, tree); err != nil {
				t.Fatal(err)
			}
			if _, err := publicModules(tree); err != nil {
				t.Fatal(err)
			}
			edit(t, filepath.Join(tree, c.file), c.from, c.to)
			if _, err := publicModules(tree); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got the error %v, want one that says %q", err, c.says)
			}
		})
	}
}

// An unusable go.mod is found before it is tagged.
func TestGoModsInTheProxyAreChecked(t *testing.T) {
	proxy := t.TempDir()
	packed, modules, err := pack(t.Context(), checkout, proxy, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := checkGoMods(proxy, packed, modules); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(proxy, "github.com/retrysafe/retrysafe/grpcsafe/@v", packed+".mod")
	edit(t, name, "retrysafe/rpcsafe "+packed, "retrysafe/rpcsafe v0.0.0")
	edit(t, name, "\nrequire ", "\nreplace github.com/retrysafe/retrysafe => ..\n\nrequire ")
	err = checkGoMods(proxy, packed, modules)
	if err == nil || !strings.Contains(err.Error(), "must not replace") || !strings.Contains(err.Error(), "want "+packed) {
		t.Errorf("got the error %v, want one that names the replace line and the version", err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := checkGoMods(proxy, packed, modules); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got the error %v, want one that says that grpcsafe is missing", err)
	}
}

// The version that pack derives stands for the contents of the modules, not for those of an earlier pack. Seen to
// fail with copyWorkingTree including the files of the excluded folder.
func TestPackNamesContents(t *testing.T) {
	repo := repository(t)
	var versions []string
	for _, change := range []string{"", "", "another "} {
		edit(t, filepath.Join(repo, "README.md"), "# Retrysafe", "# "+change+"Retrysafe")
		packed, _, err := pack(t.Context(), repo, filepath.Join(repo, "out"), "")
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, packed)
	}
	if versions[0] != versions[1] || versions[1] == versions[2] {
		t.Errorf("two packs of the same files and one of others have the versions %q", versions)
	}
}

// Seen to fail with a dependency upgraded and the file left as it was.
func TestLicensesAreCurrent(t *testing.T) {
	want, err := licenses(t.Context(), checkout)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(checkout, licensesFile))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s does not fit the dependencies of the command: run make licenses, and commit the file", licensesFile)
	}
}

// Seen to fail with copyleft not looked at, and with known not looked at in checkLicenses.
func TestOnlyPermissiveLicensesAreAccepted(t *testing.T) {
	const mit = "MIT License\n\nPermission is hereby granted, free\nof charge, to any person"
	for _, c := range []struct {
		module string
		texts  []string
		refuse string
	}{
		{"example.com/a v1.0.0", []string{mit}, ""},
		{"example.com/a v1.0.0", []string{"Copyright 2015 A. All Rights Reserved.", mit}, ""},
		{"github.com/go-sql-driver/mysql v1.10.1", []string{"Mozilla Public License Version 2.0"}, ""},
		{"example.com/a v1.0.0", []string{"Mozilla Public License Version 2.0"}, `"Mozilla Public"`},
		{"example.com/a v1.0.0", []string{mit, "   GNU GENERAL PUBLIC\n   LICENSE\n Version 3"}, `"GNU GENERAL PUBLIC"`},
		{"example.com/a v1.0.0", []string{"GNU AFFERO GENERAL PUBLIC LICENSE"}, "example.com/a v1.0.0"},
		{"example.com/a v1.0.0", []string{"GNU LESSER GENERAL PUBLIC LICENSE"}, "must not contain it"},
		{"example.com/a v1.0.0", []string{"Business Source License 1.1"}, "must not contain it"},
		{"example.com/a v1.0.0", []string{"\"Commons Clause\" License Condition v1.0\n" + mit}, "must not contain it"},
		{"example.com/a v1.0.0", []string{"Copyright 2015 A. All Rights Reserved."}, "not known to be permissive"},
	} {
		err := checkLicenses(c.module, c.texts)
		if (err == nil) != (c.refuse == "") || err != nil && !strings.Contains(err.Error(), c.refuse) {
			t.Errorf("%s, %.40q: %v, want %q", c.module, c.texts, err, c.refuse)
		}
	}
}

// signingKey returns the file of a new key, which the repository names as one that signs releases.
func signingKey(t *testing.T, repo string) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	do(t, repo, nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key)
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(repo, signersFile), append([]byte("release@retrysafe "), public...)); err != nil {
		t.Fatal(err)
	}
	do(t, repo, nil, "git", "add", "--all")
	do(t, repo, nil, "git", "commit", "--quiet", "--message", "a key")
	return key
}

// repository returns a repository whose only commit has the files of the working tree, and whose changelog has a
// section for the version.
func repository(t *testing.T) string {
	t.Helper()
	repo := t.TempDir()
	if _, err := copyWorkingTree(t.Context(), checkout, repo, repo); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(repo, "CHANGELOG.md"), "\n## ", "\n## ["+version[1:]+"] - 2026-01-31\n\n## ")
	do(t, repo, nil, "git", "init", "--quiet")
	for _, setting := range []string{"user.name", "user.email"} {
		do(t, repo, nil, "git", "config", setting, "maintainer@example.test")
	}
	do(t, repo, nil, "git", "add", "--all")
	do(t, repo, nil, "git", "commit", "--quiet", "--message", "all files")
	return repo
}

// state returns everything that a release could change in a checkout: its commit, the refs, changed and new files.
func state(t *testing.T, repo string) string {
	t.Helper()
	return do(t, repo, nil, "git", "rev-parse", "HEAD") + "\n" + do(t, repo, nil, "git", "for-each-ref") + "\n" +
		do(t, repo, nil, "git", "status", "--porcelain", "--ignored")
}

func do(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	output, err := command(t.Context(), dir, env, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// edit replaces the first occurrence of a text in a file.
func edit(t *testing.T, name, from, to string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), from) {
		t.Fatalf("%s does not contain %q", name, from)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(string(data), from, to, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}
