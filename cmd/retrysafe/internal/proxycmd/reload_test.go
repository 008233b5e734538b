//go:build unix

package proxycmd

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/config"
)

// reloadable is a proxy with a file that can be written again.
type reloadable struct {
	*clitest.Running
	file string
}

// startReloadable starts a proxy with a file.
func startReloadable(t *testing.T, text string, args ...string) *reloadable {
	t.Helper()
	r := &reloadable{file: clitest.WriteFile(t, text)}
	r.start(t, args...)
	return r
}

func (r *reloadable) start(t *testing.T, args ...string) {
	t.Helper()
	r.Running = clitest.StartProxy(t, append(args, "--config="+r.file, "--admin=127.0.0.1:0", "--metrics")...)
}

// write replaces the file.
func (r *reloadable) write(text string) {
	r.T.Helper()
	replaceFile(r.T, r.file, text)
}

// replaceFile replaces a file as Kubernetes and careful editors do: no process reads a part of it.
func replaceFile(t *testing.T, file, text string) {
	t.Helper()
	clitest.Must(t, os.WriteFile(file+".new", []byte(text), 0o600))
	clitest.Must(t, os.Rename(file+".new", file))
}

// reload writes the file, and waits until it is in force.
func (r *reloadable) reload(text string) {
	r.T.Helper()
	r.write(text)
	r.Signal(syscall.SIGHUP)
	r.Line(wasReloaded)
}

const (
	wasReloaded = "the configuration was reloaded"
	notReloaded = "the configuration was not reloaded; the running one stays in force"
)

// countDials returns how many connections a client has made since.
func countDials(c *http.Client) func() int64 {
	var n atomic.Int64
	transport := &http.Transport{}
	if own, ok := c.Transport.(*http.Transport); ok {
		transport = own
	}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		n.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	c.Transport = transport
	return n.Load
}

// A request that has begun ends at the upstream that it began with, on a connection that lives on; the next request on that
// connection goes to the other one.
//
// Seen to fail with the call of Reload taken out of replace.
func TestAReloadCutsNothingOff(t *testing.T) {
	t.Parallel()
	before, after := clitest.NewAPI(t), clitest.NewAPI(t)
	p := startReloadable(t, "upstream: "+before.URL+"\n", "--store=memory:")
	answered := make(chan clitest.Reply, 1)
	go p.Hold(answered)
	clitest.WaitFor(t, before.Began, "the operation to run")
	p.Client = &http.Client{Timeout: time.Minute}
	dials := countDials(p.Client)
	clitest.Want(t, "first", p.MustPost("1", "").Text, "charge 2")
	p.reload("upstream: " + after.URL + "\n")
	clitest.Want(t, "second", p.MustPost("2", "").Text, "charge 1")
	clitest.Want(t, "retry of the first", p.MustPost("1", "").Text, "charge 2")
	clitest.Want(t, "connections", dials(), 1)
	close(before.GoOn)
	clitest.Want(t, "held", clitest.WaitFor(t, answered, "the answer").Text, "charge 1")
	clitest.Want(t, "retry of the one that was held", p.MustPost("k", "amount=1", "X-Hold", "1").Text, "charge 1")
}

// All faults are logged at once with their places, the file before stays in force, and metrics and readiness say so.
//
// Seen to fail with CheckReload left out of reload (h2c), with noTLS left out of newPlan, and with reloaded not called.
func TestAReloadWithFaultsChangesNothing(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	good := "upstream: " + up.URL + "\n"
	p := startReloadable(t, good, "--store=memory:")
	clitest.Want(t, "status", p.MustPost("1", "").StatusCode, 201)
	began := scrapeOf(p.Running).series["retrysafe_config_last_success_seconds"]
	if now := float64(time.Now().Unix()); began < now-600 || began > now {
		t.Errorf("the time of the last success is %v, and now it is %v", began, now)
	}
	for text, says := range map[string][]string{
		"lisen: a\ngrace: 3\n": {"proxy.yaml:1:1:", "     1 | lisen: a\n       | ^\n", "did you mean", "proxy.yaml:2:8:"},
		good + "h2c: true\nlimits: {idle_timeout: 3s}\n": {
			"proxy.yaml:2:6: h2c cannot change", "limits.idle_timeout cannot change", "restart the proxy",
		},
		good + "secret: {file: missing}\ntls: {cert: a, key: b}\nscope: mtls\n": {
			"secret: open missing", "tls: open a", "the scope mtls needs client certificates", "tls.cert cannot change",
		},
		"": {"no upstream"},
	} {
		p.write(text)
		p.Signal(syscall.SIGHUP)
		clitest.WantText(t, "error", p.Line(notReloaded)["error"].(string), says...)
	}
	clitest.Want(t, "status", p.MustPost("2", "").StatusCode, 201)
	clitest.Want(t, "ready", statusOf(t, p.Admin+"/readyz"), 200)
	p.reload(good)
	scrapeOf(p.Running).want(t, map[string]float64{
		`retrysafe_config_reloads_total{result="refused"}`: 4, `retrysafe_config_reloads_total{result="succeeded"}`: 1,
	})
}

// Envoy's messages may be as large as the configuration in force says.
//
// Seen to fail with the call of answerEnvoy taken out of replace: the message was too large, as before the reload.
func TestAReloadChangesTheLimitsOfEnvoysMessages(t *testing.T) {
	t.Parallel()
	p := startReloadable(t, "ext_proc: true\n", "--store=memory:")
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	envoy := &http.Client{Transport: &http.Transport{Protocols: h2c}}
	const field15, size = 15<<3 | 2, 3 << 20 // a field that is skipped, so that the message is about nothing
	message := append(binary.AppendUvarint([]byte{field15}, size), make([]byte, size)...)
	status := func() string {
		frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
		res, err := envoy.Post(p.URL+"/envoy.service.ext_proc.v3.ExternalProcessor/Process", "application/grpc",
			bytes.NewReader(frame))
		clitest.Must(t, err)
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		clitest.Must(t, err)
		return res.Trailer.Get("Grpc-Status")
	}
	clitest.Want(t, "too large", status(), "8")
	p.reload("ext_proc: true\ndefaults: {max_response: 4MiB}\n")
	clitest.Want(t, "not a message of Envoy", status(), "13")
}

// The keys of upstream_key stay those of one secret as long as the proxy runs, also if the file changes that has it.
//
// Seen to fail with the comparison of ChildSecret taken out of reload: it was reloaded, and the keys were those of the old
// secret.
func TestAReloadKeepsTheSecretOfTheUpstreamKey(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	secret := clitest.WriteFile(t, "a secret of some length\n")
	p := startReloadable(t, "upstream: "+up.URL+"\nupstream_key_secret: {file: "+secret+"}\ndefaults: {upstream_key: X-Key}\n",
		"--store=memory:")
	clitest.Must(t, os.WriteFile(secret, []byte("another secret of some length"), 0o600))
	p.Signal(syscall.SIGHUP)
	clitest.WantText(t, "error", p.Line(notReloaded)["error"].(string), "upstream_key_secret cannot change")
}

// A reload that gives requests other keys says so, by route; one that leaves them as they are says nothing. A start says
// what keys are made of, so that it can be compared with the start before.
//
// Seen to fail with logMadeKeys taken out of open; with ScopeVersion, VerifyFunc and KeySource taken out of madeOf one after the other, with the comparison
// of scopes taken out of warnOfOtherKeys, with Default taken out of routes, and with a header in place of a member of the
// body taken for another key.
func TestAReloadSaysWhoseKeysHaveChanged(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	secret := clitest.WriteFile(t, "a secret of some length\n")
	const began = "the keys of requests have changed"
	file := func(scope, sale, order, event string) string {
		return "upstream: " + up.URL + "\nscope: " + scope + "\nsecret: {file: " + secret + "}\nroutes:\n" +
			"  POST /sales: {key: " + sale + "}\n  POST /orders: {" + order + "}\n  POST /events: {" + event + "}\n"
	}
	github := "verify: {github: {secret: {file: " + secret + "}}}, key: {natural: {fields: [/id]}}"
	p := startReloadable(t, file("credential", "{body_hash: {fields: [/a]}}", "key: {header: X-Key}", "key: {natural: {fields: [/id]}}"),
		"--store=memory:")
	clitest.WantText(t, "log of the start", p.Log(),
		`"keys are made from requests","route":"POST /sales","kind":"body_hash","fields":["/a"]`)
	for i, change := range []struct{ text, routes string }{
		{file("credential", "{body_hash: {fields: [/a, /b]}}", "key: {header: X-Key}", "key: {natural: {fields: [/id]}}"), `"routes":"POST /sales"`},
		{file("credential", "{body_hash: {fields: [/a, /b]}}", "key: {body: /key}", github), `"routes":"POST /events"`},
		{file("credential", "{body_hash: {fields: [/a, /b]}}", "scope_version: v2", github), `"routes":"POST /orders"`},
		{
			file("credential", "{body_hash: {fields: [/a, /b]}}", "key: {header: X-Key}, scope_version: v2", github) +
				"defaults: {key: {natural: {fields: [/id]}}}\n",
			`"routes":"everything else"`,
		},
		{file("none", "{body_hash: {fields: [/a, /b]}}", "scope_version: v2", github), `"because":"scope","routes":"all"`},
	} {
		p.reload(change.text)
		if n := strings.Count(p.Log(), began); n != i+1 || !strings.Contains(p.Log(), change.routes) {
			t.Errorf("%s: %d warnings so far:\n%s", change.routes, n, p.Log())
		}
	}
}

// With watch the proxy reloads by itself when its file changes, or one that it names.
//
// Seen to fail with the file of the secret left out of Files.
func TestWatch(t *testing.T) {
	t.Parallel()
	up, other := clitest.NewAPI(t), clitest.NewAPI(t)
	secret := clitest.WriteFile(t, "a secret of some length\n")
	text := "watch: true\nsecret: {file: " + secret + "}\nupstream: "
	p := startReloadable(t, text+up.URL+"\n", "--store=memory:")
	clitest.Want(t, "before", p.MustPost("1", "").Text, "charge 1")
	p.write(text + other.URL + "\n")
	clitest.Want(t, "by", p.Line(wasReloaded)["by"], any("watch"))
	clitest.Want(t, "after", p.MustPost("2", "").Text, "charge 1")
	clitest.Want(t, "asked", up.Asked.Load(), 1)
	replaceFile(t, secret, "short")
	clitest.WantText(t, "error", p.Line(notReloaded)["error"].(string), "secret: 5 bytes are too few")
	replaceFile(t, secret, "another secret of some length")
	p.Line(wasReloaded)
}

// The file of a profile is reloaded, too. One with a fault changes nothing, and is watched until it is right, although
// meanwhile the configuration that names it cannot be read.
//
// Seen to fail with the profile's file left out of Files, and with no files given to read by reload.
func TestWatchAProfileFile(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	profile := clitest.WriteFile(t, "name: acme\nmarker: First\n")
	p := startReloadable(t, "watch: true\nupstream: "+up.URL+"\ndefaults: {profile: "+profile+"}\n", "--store=memory:")
	p.MustPost("1", "")
	clitest.Want(t, "before", p.MustPost("1", "").Header.Get("First"), "true")
	replaceFile(t, profile, "name: acme\nmarkre: Second\n")
	clitest.WantText(t, "error", p.Line(notReloaded)["error"].(string), "2:1: the profile has no field", `did you mean "marker"?`)
	clitest.Want(t, "meanwhile", p.MustPost("1", "").Header.Get("First"), "true")
	replaceFile(t, profile, "name: acme\nmarker: Second\n")
	p.Line(wasReloaded)
	clitest.Want(t, "after", p.MustPost("1", "").Header.Get("Second"), "true")
}

// A file is read when two looks in a row have seen the same, and once.
//
// Seen to fail with settled always true, and with tried not compared in changed.
func TestAHalfWrittenFileIsNotRead(t *testing.T) {
	seen, tried, read := looks{}, config.Digest{'a'}, ""
	for _, c := range []byte("aabcbccccaabb") {
		if seen.changed(config.Digest{c}, tried) {
			tried, read = config.Digest{c}, read+string(c)
		}
	}
	clitest.Want(t, "read", read, "cab")
}

// New connections get the certificate that the files have now. Connections that exist go on.
//
// Seen to fail with the settings of the start in place of inForce in tlsInForce.
func TestNewCertificates(t *testing.T) {
	t.Parallel()
	up, ca := clitest.NewAPI(t), newAuthority(t)
	cert, key := ca.issue("server", 2)
	newCert, newKey := ca.issue("server", 3)
	text := "upstream: " + up.URL + "\ntls: {cert: " + cert + ", key: " + key + "}\n"
	p := startReloadable(t, text, "--store=memory:")
	p.Client = ca.client("", "")
	dials := countDials(p.Client)
	serial := func() int64 { return p.MustPost("k", "").TLS.PeerCertificates[0].SerialNumber.Int64() }
	clitest.Want(t, "serial number", serial(), 2)
	clitest.Must(t, os.Rename(newCert, cert))
	p.Signal(syscall.SIGHUP)
	clitest.WantText(t, "a certificate without its key", p.Line(notReloaded)["error"].(string), "private key does not match")
	clitest.Must(t, os.Rename(newKey, key))
	p.reload(text)
	clitest.Want(t, "serial number on the old connection", serial(), 2)
	clitest.Want(t, "connections", dials(), 1)
	p.Client = ca.client("", "")
	got := p.MustPost("k", "")
	clitest.Want(t, "serial number", got.TLS.PeerCertificates[0].SerialNumber.Int64(), 3)
	clitest.Want(t, "protocol", got.Proto, "HTTP/2.0")

	// From now on clients need a certificate.
	p.reload(strings.Replace(text, "}", ", client_ca: "+filepath.Join(ca.dir, "ca.pem")+"}", 1))
	p.Client = ca.client("", "")
	if got, err := p.Post("k", ""); err == nil {
		t.Errorf("a client without a certificate gets %d", got.StatusCode)
	}
}

// What belongs to an old configuration ends with its last request: 30 reloads leave as many goroutines as one.
//
// Seen to fail with stopScope not passed to Reload, and with closeIdleConnections not called by the generation's leave.
func TestReloadsLeaveNoGoroutines(t *testing.T) {
	t.Parallel()
	up, keys := clitest.NewAPI(t), newLogin(t)
	text := func(i int) string {
		return fmt.Sprintf("upstream: {url: %q, idle_timeout: 1h}\nscope: 'jwt:%s'\nlimits: {concurrent: %d}\n"+
			"defaults: {in_flight: status}\n", up.URL, keys.URL, 100+i)
	}
	p := startReloadable(t, text(0), "--store=memory:")
	once := func(i int) {
		p.reload(text(i))
		for n := range 3 {
			got := p.MustPost(fmt.Sprint("key-", i, "-", n), "", "Authorization", keys.token("me"), "Prefer", "respond-async")
			clitest.Want(t, "status", got.StatusCode, http.StatusAccepted)
		}
	}
	once(1)
	before := scrapeOf(p.Running).series["go_goroutines"]
	for i := range 30 {
		once(i + 2)
	}
	for late := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		after := scrapeOf(p.Running).series["go_goroutines"]
		if after <= before+10 {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%v goroutines after 31 reloads, and %v after one", after, before)
		}
	}
}
