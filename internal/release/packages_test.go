package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
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

// machine runs a script of the shell as root in a copy of this machine: what it writes goes to a file system in memory,
// in a mount namespace that ends with it. A file of an argument has the same path there.
func machine(t *testing.T, script string, args ...string) string {
	t.Helper()
	const enter = `set -e
mount -t tmpfs tmpfs "$0"
mkdir "$0/upper" "$0/work" "$0/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$0/upper,workdir=$0/work" "$0/root"
mount -t proc proc "$0/root/proc"
mount --bind /dev "$0/root/dev"
exec chroot "$0/root" /bin/sh -euc "$@"`
	// With its own network, so that the ports of the packaged configuration are free, and its own processes, which end
	// with the script.
	enterArgs := append([]string{"--mount", "--net", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", enter, t.TempDir(),
		script, "script"}, args...)
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
        self.send_response(201); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *args): pass
http.server.HTTPServer(("127.0.0.1", 3000), API).serve_forever()' &
}
charge() { curl -s -i -X POST -H "Authorization: me" -H "Idempotency-Key: \"order-17\"" http://127.0.0.1:8080/; }
ip link set lo up
api
`

// A new installation starts, an upgrade keeps the configuration and the keys, a removal keeps both, and a purge neither.
//
// Seen to fail without the line of conffiles in deb, with adduser taken out of deb.postinst, and with rm taken out of
// deb.postrm.
func TestDeb(t *testing.T) {
	t.Parallel()
	p, binary := built(t)
	name, data, err := p.deb(binary, runtime.GOARCH)
	first := save(t, name, data, err)
	next := *p
	next.version = "v0.0.1"
	name, data, err = next.deb(binary, runtime.GOARCH)
	second := save(t, name, data, err)
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
dpkg -r retrysafe
test ! -e /usr/bin/retrysafe
test -e /etc/retrysafe/proxy.yaml
test -e /var/lib/retrysafe/retrysafe.db
dpkg -P retrysafe
test ! -e /etc/retrysafe
test ! -e /var/lib/retrysafe
`, first, second)
}

// Seen to fail with ConfigFile taken out of what rpm calls the kind of a file, and with useradd taken out of rpm.pre.
func TestRPM(t *testing.T) {
	t.Parallel()
	p, binary := built(t)
	name, data, err := p.rpm(binary, runtime.GOARCH)
	first := save(t, name, data, err)
	next := *p
	next.version = "v0.0.1"
	name, data, err = next.rpm(binary, runtime.GOARCH)
	second := save(t, name, data, err)
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
// Seen to fail without PrivateUsers=yes in deploy/retrysafe.service.
func TestUnitIsHardened(t *testing.T) {
	t.Parallel()
	unit, err := (&packager{tree: checkout}).unit()
	file := save(t, "retrysafe.service", unit, err)
	out, err := exec.Command(servers.SystemdAnalyze(t), "security", "--offline=true", "--threshold=12", "--no-pager", file).
		CombinedOutput()
	found := regexp.MustCompile(`Overall exposure level .*: ([\d.]+)`).FindSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("systemd-analyze: %v\n%s", err, out)
	}
	t.Logf("exposure %s of 10", found[1])
}
