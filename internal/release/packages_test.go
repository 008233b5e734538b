package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// built returns a packager for the working tree, and the command as it is built for this machine.
func built(t *testing.T) (*packager, []byte) {
	t.Helper()
	program, err := servers.Retrysafe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPackager(t.Context(), checkout, version, program)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return p, binary
}

// save writes what a packager has made into a temporary folder, and returns its path.
func save(t *testing.T, name string, data []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// twoVersions returns the paths of a package and of its next version, v0.0.1.
func twoVersions(
	t *testing.T, pack func(p *packager, binary []byte, arch string) (string, []byte, error),
) (first, second string) {
	t.Helper()
	p, binary := built(t)
	name, data, err := pack(p, binary, runtime.GOARCH)
	first = save(t, name, data, err)
	p.version = "v0.0.1"
	name, data, err = pack(p, binary, runtime.GOARCH)
	return first, save(t, name, data, err)
}

// machine runs a script of the shell as root in a copy of this machine: what it writes goes to a file system in
// memory, in a mount namespace that ends with it. A file of an argument has the same path there.
func machine(t *testing.T, script string, args ...string) string {
	t.Helper()
	const enter = `set -e
mount -t tmpfs tmpfs "$0"
mkdir "$0/upper" "$0/work" "$0/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$0/upper,workdir=$0/work" "$0/root"
mount -t proc proc "$0/root/proc"
mount --rbind /dev "$0/root/dev"
exec chroot "$0/root" /bin/sh -euc "$@"`
	// With its own network, so that the ports of the packaged configuration are free, and its own processes, which end
	// with the script.
	enterArgs := append([]string{
		"--mount", "--net", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", enter, t.TempDir(), script, "script",
	}, args...)
	c := exec.CommandContext(t.Context(), "unshare", enterArgs...)
	c.Env = append(os.Environ(), "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	output, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return string(output)
}

// service defines shell functions for both formats. start runs the proxy as the installed unit does, with the state
// folder that systemd would create, and api is what it protects, which counts its requests.
const service = `
unit=/usr/lib/systemd/system/retrysafe.service
value() { sed -n "s/^$1=//p" $unit; }
start() {
	user=$(value User)
	install -d -o "$user" -g "$(value Group)" -m "$(value StateDirectoryMode)" /var/lib/"$(value StateDirectory)"
	cd /var/lib/"$(value StateDirectory)"
	setpriv --reuid "$user" --regid "$(value Group)" --clear-groups --no-new-privs $(value ExecStart) &
	proxy=$!
	cd /
	tries=0
	until curl -s -o /dev/null http://127.0.0.1:8080/; do
		kill -0 $proxy
		tries=$((tries + 1))
		[ $tries -lt 300 ]
		sleep 0.1
	done
}
stop() { kill $proxy; wait $proxy; }
api() {
	python3 -c '
import http.server
class API(http.server.BaseHTTPRequestHandler):
    count = 0
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def do_POST(self):
        API.count += 1
        body = b"charge %d\n" % API.count
        self.send_response(201); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
http.server.HTTPServer(("127.0.0.1", 3000), API).serve_forever()' &
}
charge() { curl -s -i -X POST -H "Authorization: me" -H "Idempotency-Key: \"order-17\"" http://127.0.0.1:8080/; }
ip link set lo up
api
`

// A new installation starts, an upgrade keeps the configuration and the keys, a removal too, and a purge neither.
//
// Seen to fail without the lines of configs in deb, without "adduser" after an installation, and without "rm" at a
// purge.
func TestDeb(t *testing.T) {
	t.Parallel()
	first, second := twoVersions(t, (*packager).deb)
	if out, err := exec.Command(servers.Lintian(t), "--fail-on", "error,warning", "--tag-display-limit", "0",
		"--allow-root", first).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("lintian: %v\n%s", err, out)
	}
	servers.Curl(t)
	machine(t, service+`
dpkg -i "$1"
start
charge | grep 'Idempotency-Status: executed'
stop
echo '# changed' >>/etc/retrysafe/proxy.yaml
dpkg -i "$2"
dpkg-query -W -f '${Version}' retrysafe | grep -x 0.0.1
grep '# changed' /etc/retrysafe/proxy.yaml
start
charge | grep 'Idempotency-Status: replayed'
charge | grep 'charge 1'
stop
man --warnings -l /usr/share/man/man1/retrysafe.1.gz | grep 'RETRYSAFE KEYS RESOLVE'
bash -n /usr/share/bash-completion/completions/retrysafe
head -n 1 /usr/share/zsh/vendor-completions/_retrysafe | grep -x '#compdef retrysafe'
dpkg -r retrysafe
test ! -e /usr/bin/retrysafe
test -e /etc/retrysafe/proxy.yaml
test -e /var/lib/retrysafe/retrysafe.db
dpkg -P retrysafe
test ! -e /etc/retrysafe
test ! -e /var/lib/retrysafe
`, first, second)
}

// A removal keeps the keys, and the configuration if it was changed.
//
// Seen to fail with GenericFile for the configuration in rpm, and without "useradd" before an installation.
func TestRPM(t *testing.T) {
	t.Parallel()
	first, second := twoVersions(t, (*packager).rpm)
	servers.Curl(t)
	machine(t, service+`
rpm=$1
$rpm -i --nodeps --force-debian "$2"
$rpm -V --nodeps retrysafe
start
charge | grep 'Idempotency-Status: executed'
stop
echo '# changed' >>/etc/retrysafe/proxy.yaml
$rpm -U --nodeps --force-debian "$3"
$rpm -q --qf '%{VERSION}' retrysafe | grep -x 0.0.1
grep '# changed' /etc/retrysafe/proxy.yaml
start
charge | grep 'Idempotency-Status: replayed'
stop
$rpm -e retrysafe
test ! -e /usr/bin/retrysafe
test -e /etc/retrysafe/proxy.yaml.rpmsave
test -e /var/lib/retrysafe/retrysafe.db
`, servers.RPM(t), first, second)
}

// The unit of the packages exposes little of the machine. 10 is the worst figure.
//
// Seen to fail without "PrivateUsers=yes" in the unit.
func TestUnitIsHardened(t *testing.T) {
	t.Parallel()
	unit, err := (&packager{tree: checkout}).unit()
	file := save(t, "retrysafe.service", unit, err)
	analyze := exec.Command(servers.SystemdAnalyze(t), "security", "--offline=true", "--threshold=11", "--no-pager", file)
	out, err := analyze.CombinedOutput()
	found := regexp.MustCompile(`Overall exposure level .*: ([\d.]+)`).FindSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("systemd-analyze: %v\n%s", err, out)
	}
	t.Logf("exposure %s of 10", found[1])
}

// npm installs the library and the program from their files, without a registry, and npx runs the program.
//
// Seen to fail with the program's mode left at 0644, without bin in clients/node/package.json, and without
// child.kill in clients/node/command.js.
func TestNPM(t *testing.T) {
	t.Parallel()
	p, binary := built(t)
	npm, dist, project := servers.NPM(t), t.TempDir(), t.TempDir()
	servers.Node(t)
	here := target{runtime.GOOS, runtime.GOARCH}
	if err := p.npm(t.Context(), dist, map[target][]byte{here: binary}); err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Glob(filepath.Join(dist, "*.tgz"))
	if err != nil || len(packages) != 2 {
		t.Fatalf("%v: there are the packages %q", err, packages)
	}
	env := append(os.Environ(), "npm_config_offline=true", "npm_config_update_notifier=false",
		"npm_config_cache="+t.TempDir())
	do(t, project, env, npm, append([]string{"install", "--no-audit", "--no-fund"}, packages...)...)
	npx := filepath.Join(filepath.Dir(npm), "npx")
	demo := do(t, project, env, npx, "--offline", "retrysafe", "demo", "--once")
	if !strings.Contains(demo, "exactly once") {
		t.Errorf("npx retrysafe demo prints\n%s", demo)
	}
	do(t, project, env, "node", "-e", "require('retrysafe').once")
	if got := do(t, project, env, "node", "-p", "require('retrysafe/package.json').version"); got != version[1:] {
		t.Errorf("the library has the version %s, want %s", got, version[1:])
	}
	// A process manager stops the proxy behind the command.
	stopped := do(t, project, env, "timeout", "60", "sh", "-c", `node_modules/.bin/retrysafe proxy --upstream http://127.0.0.1:1 \
		--listen 127.0.0.1:0 --store keys.db --scope none >log 2>&1 & launcher=$!
		until grep -q msg=listening log; do kill -0 $launcher; sleep 0.1; done
		kill -TERM $launcher; wait $launcher; cat log`)
	if !strings.Contains(stopped, "msg=stopped") {
		t.Errorf("SIGTERM did not reach the proxy:\n%s", stopped)
	}
}

// Each target has a package that npm installs only there, with the program where clients/node/command.js looks for it, and
// the library depends on all of them at its own version. The programs are not run.
//
// Seen to fail with "darwin" replaced by "macos" in the names, with suffix taken out of the program's name, and with set
// without "optionalDependencies".
func TestNPMHasEachTarget(t *testing.T) {
	t.Parallel()
	servers.NPM(t)
	p := &packager{tree: checkout, version: version, time: time.Unix(1_750_000_000, 0)}
	dist, programs := t.TempDir(), map[target][]byte{}
	for _, target := range targets {
		programs[target] = []byte(target.os + target.arch)
	}
	if err := p.npm(t.Context(), dist, programs); err != nil {
		t.Fatal(err)
	}
	type manifest struct {
		Name, Version        string
		OS, CPU              []string
		OptionalDependencies map[string]string
	}
	unpack := func(file string) (folder string, m manifest) {
		folder = t.TempDir()
		do(t, folder, nil, "tar", "-xzf", filepath.Join(dist, file))
		readJSON(t, filepath.Join(folder, "package/package.json"), &m)
		return folder, m
	}
	want := map[string]string{}
	for _, c := range []struct{ system, processor, program, content string }{ // as process.platform and process.arch are
		{"linux", "x64", "retrysafe", "linuxamd64"},
		{"linux", "arm64", "retrysafe", "linuxarm64"},
		{"darwin", "x64", "retrysafe", "darwinamd64"},
		{"darwin", "arm64", "retrysafe", "darwinarm64"},
		{"win32", "x64", "retrysafe.exe", "windowsamd64"},
	} {
		name := c.system + "-" + c.processor
		folder, m := unpack("retrysafe-" + name + "-" + version[1:] + ".tgz")
		if m.Name != "@retrysafe/"+name || m.Version != version[1:] ||
			!slices.Equal(m.OS, []string{c.system}) || !slices.Equal(m.CPU, []string{c.processor}) {
			t.Errorf("the package for %s is %+v", name, m)
		}
		program := filepath.Join(folder, "package/bin", c.program)
		content, err := os.ReadFile(program)
		if err != nil || string(content) != c.content {
			t.Errorf("the program for %s is %q, %v", name, content, err)
		} else if info, err := os.Stat(program); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("the program for %s: %v, %v", name, info, err)
		}
		want[m.Name] = version[1:]
	}
	if _, m := unpack("retrysafe-" + version[1:] + ".tgz"); m.Version != version[1:] || !maps.Equal(m.OptionalDependencies, want) {
		t.Errorf("the library is %+v, want the dependencies %v", m, want)
	}
}

// pip installs the wheel without an index. It has all modules, although it was built from the source distribution.
//
// Seen to fail with the version left as it is in clients/python, and with retrysafe_queues.py taken out of the wheel in
// pyproject.toml.
func TestPython(t *testing.T) {
	t.Parallel()
	python, dist, project := servers.PythonWith(t, "build", "hatchling", "ensurepip"), t.TempDir(), t.TempDir()
	p := &packager{tree: checkout, version: version, time: time.Unix(1_750_000_000, 0)}
	if err := p.python(t.Context(), dist, python); err != nil {
		t.Fatal(err)
	}
	wheels, _ := filepath.Glob(filepath.Join(dist, "*.whl"))
	sources, _ := filepath.Glob(filepath.Join(dist, "*.tar.gz"))
	if len(wheels) != 1 || len(sources) != 1 {
		t.Fatalf("there are the wheels %q and the source distributions %q", wheels, sources)
	}
	do(t, project, nil, python, "-m", "venv", "venv")
	installed := filepath.Join(project, "venv/bin/python")
	do(t, project, nil, installed, "-m", "pip", "install", "--no-index", "--no-deps", wheels[0])
	if got := do(t, project, nil, installed, "-c",
		"import retrysafe, retrysafe.aio, retrysafe.queues, retrysafe.testing; print(retrysafe.__version__)"); got != version[1:] {
		t.Errorf("the module has the version %s, want %s", got, version[1:])
	}
}

// The image runs as a user without rights, in its own file system alone.
//
// Seen to fail with the folder /var/lib/retrysafe left to root, and without /tmp.
func TestImage(t *testing.T) {
	t.Parallel()
	p, binary := built(t)
	name, data, err := p.image(binary, runtime.GOARCH)
	image, folder := save(t, name, data, err), t.TempDir()
	do(t, folder, nil, "tar", "-xf", image)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	readJSON(t, filepath.Join(folder, "manifest.json"), &manifest)
	var settings struct {
		Config struct {
			User, WorkingDir string
			Entrypoint       []string
		}
	}
	readJSON(t, filepath.Join(folder, manifest[0].Config), &settings)
	config := settings.Config
	root := filepath.Join(folder, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, layer := range manifest[0].Layers {
		do(t, root, nil, "tar", "-xpf", filepath.Join(folder, layer))
	}
	user, group, _ := strings.Cut(config.User, ":")
	enter := []string{
		"--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-euc", `ip link set lo up
			mkdir "$0/proc"
			mount -t proc proc "$0/proc"
			unshare --root="$0" --wd="$1" --setgid="$2" --setuid="$3" "$4" demo --once
			unshare --root="$0" --wd="$1" --setgid="$2" --setuid="$3" "$4" check --store keys.db`,
		root, config.WorkingDir, group, user, config.Entrypoint[0],
	}
	got := do(t, folder, []string{"PATH=" + os.Getenv("PATH")}, "unshare", enter...)
	if !strings.Contains(got, "exactly once") {
		t.Errorf("the demo prints\n%s", got)
	}
	roots, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if pool := x509.NewCertPool(); err != nil || !pool.AppendCertsFromPEM(roots) {
		t.Errorf("%v: the image has no certificates", err)
	}
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// The chart of a release has the version of the release, and runs the image with this version. Everything else in it is
// what the repository has. With RETRYSAFE_SOAK above 1, Helm loads the archive, and renders it.
//
// Seen to fail with "" in place of the prefix in the call of tarball, with ReplaceAll taken out of chart, and with
// "(version)" alone in chartVersions.
func TestSoakChart(t *testing.T) {
	t.Parallel()
	p := &packager{tree: checkout, version: version, time: time.Unix(1_750_000_000, 0)}
	name, data, err := p.chart()
	archive, folder, source := save(t, name, data, err), t.TempDir(), filepath.Join(checkout, "deploy/helm/retrysafe")
	if want := "retrysafe-chart-" + version[1:] + ".tgz"; name != want {
		t.Errorf("the file is %s, want %s", name, want)
	}
	do(t, folder, nil, "tar", "-xzf", archive)
	edit(t, filepath.Join(folder, "retrysafe/Chart.yaml"), "\nversion: "+version[1:]+"\n", "\nversion: 0.1.0\n")
	edit(t, filepath.Join(folder, "retrysafe/Chart.yaml"), "\nappVersion: "+version[1:]+"\n", "\nappVersion: 0.1.0\n")
	if differs, err := command(t.Context(), ".", nil, "diff", "-r", source, filepath.Join(folder, "retrysafe")); err != nil {
		t.Errorf("with the versions put back, the chart differs from the repository's: %v\n%s", err, differs)
	}
	if soak.Times(t, 1) == 1 {
		return // Helm takes minutes to compile
	}
	check, values := filepath.Join(t.TempDir(), "check"), filepath.Join(checkout, "deploy/helm/testdata")
	do(t, filepath.Join(values, "check"), append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath", "CGO_ENABLED=0"),
		"go", "build", "-o", check, ".")
	rendered := do(t, ".", nil, check, archive, filepath.Join(values, "gateway.yaml"), filepath.Join(t.TempDir(), "proxy.yaml"))
	for _, want := range []string{"app.kubernetes.io/version: \"" + version[1:] + "\"", "helm.sh/chart: retrysafe-" + version[1:]} {
		if !strings.Contains(rendered, want) {
			t.Errorf("%q is not in\n%s", want, rendered)
		}
	}
}

// The bill of materials has exactly the modules and the version of Go that the go command finds in the program.
//
// Seen to fail with the first module left out.
func TestSBOM(t *testing.T) {
	t.Parallel()
	p, binary := built(t)
	data, err := p.sbom(binary, "retrysafe")
	if err != nil {
		t.Fatal(err)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(data), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, c := range *bom.Components {
		got = append(got, c.Name+" "+c.Version)
	}
	program, err := servers.Retrysafe()
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(do(t, ".", nil, "go", "version", "-m", program), "\n") {
		fields := strings.Fields(line)
		switch {
		case i == 0:
			want = append(want, "std "+fields[1])
		case fields[0] == "dep":
			want = append(want, fields[1]+" "+fields[2])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the bill of materials has\n%s\nthe program has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Two builds of the same files are the same bytes.
//
// Seen to fail with time.Now() in place of p.time in tarball, in rpm and in image.
func TestPackagesAreReproducible(t *testing.T) {
	t.Parallel()
	servers.NPM(t)
	python := servers.PythonWith(t, "build", "hatchling")
	var made [2]map[string][]byte
	for i := range made {
		p := &packager{tree: checkout, version: version, time: time.Unix(1_750_000_000, 0).UTC()}
		dist, binary := t.TempDir(), bytes.Repeat([]byte("program"), 1000)
		made[i] = map[string][]byte{}
		for _, pack := range []func([]byte, string) (string, []byte, error){p.deb, p.rpm, p.image} {
			name, data, err := pack(binary, "arm64")
			if err != nil {
				t.Fatal(err)
			}
			made[i][name] = data
		}
		name, chart, err := p.chart()
		made[i][name] = chart
		err = errors.Join(err, p.npm(t.Context(), dist, map[target][]byte{{"windows", "amd64"}: binary}),
			p.python(t.Context(), dist, python))
		if err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(dist)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if made[i][f.Name()], err = os.ReadFile(filepath.Join(dist, f.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(made[0]) != 8 {
		t.Errorf("%d files were made, want 8", len(made[0]))
	}
	for name, data := range made[0] {
		if !bytes.Equal(data, made[1][name]) {
			t.Errorf("two builds of %s differ", name)
		}
	}
}
