//go:build unix

package gateways

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// gateway is a gateway of the page.
type gateway struct {
	name string
	file string // its configuration on the page
	// condition is what keeps it from repeating requests without a key, and what replaces that in the control. It is
	// empty if the gateway repeats no request that it has sent.
	condition []string
	// command runs the gateway in the foreground.
	command func(config, port string) ([]string, error)
}

func (g gateway) repeats() bool { return len(g.condition) > 0 }

var gateways = []gateway{
	{"nginx", "nginx.conf", []string{"($http_idempotency_key)", "($request_method = POST)"}, nginx},
	{
		"HAProxy", "haproxy.cfg",
		[]string{"http-request disable-l7-retry unless { req.hdr(Idempotency-Key) -m found }", ""},
		haproxy,
	},
	{
		"Varnish", "default.vcl",
		[]string{"(req.http.Idempotency-Key && ", "(", "|| bereq.http.Idempotency-Key)", "|| true)"},
		varnish,
	},
	{"Caddy", "Caddyfile", []string{"header Idempotency-Key *", "method POST"}, caddy},
	{"Apache", "apache.conf", nil, apache},
}

// nginx puts the page's file where Debian's configuration includes it.
func nginx(config, _ string) ([]string, error) {
	path, err := servers.NginxPath()
	if err != nil {
		return nil, err
	}
	temporary := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += kind + "_temp_path " + kind + ";\n"
	}
	main, err := surround(config, "daemon off; user root; pid nginx.pid; error_log stderr; worker_processes 2;\nevents {}\n"+
		"http {\naccess_log off;\n"+temporary+"include %s;\n}\n")
	return []string{path, "-e", "stderr", "-p", ".", "-c", main}, err
}

func haproxy(config, _ string) ([]string, error) {
	path, err := servers.HAProxyPath()
	return []string{path, "-db", "-f", config}, err
}

func varnish(config, port string) ([]string, error) {
	path, err := servers.VarnishPath()
	return []string{
		path, "-F", "-j", "none", "-n", filepath.Dir(config), "-a", "127.0.0.1:" + port, "-f", config, "-s", "malloc,16m",
	}, err
}

// caddy runs Caddy 2.11: Debian 12's cannot send a body again.
func caddy(config, _ string) ([]string, error) {
	path, err := servers.Build("github.com/retrysafe/retrysafe/caddysafe/cmd/caddy")
	return []string{"HOME=" + filepath.Dir(config), path, "run", "--config", config, "--adapter", "caddyfile"}, err
}

// apache puts the page's file where Debian's configuration includes its sites.
func apache(config, port string) ([]string, error) {
	path, err := servers.ApachePath()
	if err != nil {
		return nil, err
	}
	modules := ""
	for _, name := range []string{
		"mpm_event", "authz_core", "slotmem_shm", "proxy", "proxy_http", "proxy_balancer", "lbmethod_byrequests",
	} {
		modules += fmt.Sprintf("LoadModule %s_module /usr/lib/apache2/modules/mod_%s.so\n", name, name)
	}
	folder := filepath.Dir(config)
	main, err := surround(config, "ServerRoot "+folder+"\nDefaultRuntimeDir "+folder+"\nPidFile apache.pid\nServerName localhost\n"+
		modules+"User www-data\nGroup www-data\nListen 127.0.0.1:"+port+"\nErrorLog /dev/stderr\nInclude %s\n")
	return []string{path, "-D", "FOREGROUND", "-f", main}, err
}

// surround writes a main configuration that includes the page's, and returns its path.
func surround(config, main string) (path string, err error) {
	path = config + ".main"
	return path, os.WriteFile(path, fmt.Appendf(nil, main, config), 0o600)
}
