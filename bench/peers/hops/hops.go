// Package hops has the reverse proxies that users put before an API: nginx, HAProxy and Caddy, each in Debian's
// version. All of them keep connections to the upstream, write no access log, and otherwise do what they do by default:
// nginx, for example, reads a whole request before it sends it.
package hops

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Names of the proxies.
const (
	Nginx   = "nginx"
	HAProxy = "HAProxy"
	Caddy   = "Caddy"
)

// Names returns all of them.
func Names() []string { return []string{Nginx, HAProxy, Caddy} }

// The configurations, with ADDR, UPSTREAM (both are host and port) and DIR replaced. Limits on how many requests a
// connection may serve, and on how many unused connections are kept, are raised above what the load needs. nginx's
// workers stay root, if root runs the benchmark, because DIR is closed to others.
const (
	nginxConf = `
daemon off;
user root;
pid DIR/nginx.pid;
error_log stderr;
worker_processes auto;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	upstream api {
		server UPSTREAM;
		keepalive 256;
		keepalive_requests 1000000000;
	}
	server {
		listen ADDR;
		keepalive_requests 1000000000;
		location / {
			proxy_pass http://api;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header X-Forwarded-For $remote_addr;
		}
	}
}
`
	haproxyConf = `
defaults
	mode http
	timeout connect 5s
	timeout client 60s
	timeout server 60s
	option forwardfor
frontend clients
	bind ADDR
	default_backend api
backend api
	server api UPSTREAM
`
	caddyConf = `
{
	admin off
	auto_https off
	log {
		level ERROR
	}
}
http://ADDR {
	bind 127.0.0.1
	reverse_proxy UPSTREAM {
		transport http {
			keepalive_idle_conns_per_host 256
		}
	}
}
`
)

// Command returns the command that runs the named proxy in the foreground: its program, the address at which it serves,
// the upstream's, and an empty folder for its files.
func Command(name, program, address, upstream, dir string) (*exec.Cmd, error) {
	conf, args := "", []string(nil)
	file := filepath.Join(dir, "proxy.conf")
	switch name {
	case Nginx:
		conf, args = nginxConf, []string{"-c", file, "-e", "stderr"}
	case HAProxy:
		conf, args = haproxyConf, []string{"-db", "-f", file}
	case Caddy:
		conf, args = caddyConf, []string{"run", "--config", file, "--adapter", "caddyfile"}
	default:
		return nil, fmt.Errorf("no proxy %q; there are %s", name, strings.Join(Names(), ", "))
	}
	conf = strings.NewReplacer("ADDR", address, "UPSTREAM", upstream, "DIR", dir).Replace(conf)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir}
	return cmd, nil
}
