package servers

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
)

// Nginx is a web server. It answers GET /healthy with 200.
type Nginx struct{ *Instance }

// NginxOptions are the options of an nginx.
type NginxOptions struct {
	// Main is added to the main level of the configuration, Events to the block "events", HTTP to the block "http" and
	// Server to its server.
	Main, Events, HTTP, Server string
}

// StartNginx starts a server for one test and ends it with the test.
func StartNginx(t testing.TB, o NginxOptions) *Nginx {
	t.Helper()
	return startFor(t, LaunchNginx, o)
}

// LaunchNginx starts a server for programs without a testing.TB. It ends with Close, or with this process.
func LaunchNginx(o NginxOptions) (*Nginx, error) {
	program, err := findProgram(nginx)
	if err != nil {
		return nil, err
	}
	in, err := newInstance("nginx", "nobody", "KILL", "")
	if err != nil {
		return nil, err
	}
	n := &Nginx{in}
	return started(n, n.configure(program, o))
}

func (n *Nginx) configure(program string, o NginxOptions) error {
	path := filepath.Join(n.folder.path, "nginx.conf")
	n.command = []string{program, "-e", "stderr", "-p", n.folder.path, "-c", path}
	n.stop, n.ready = syscall.SIGTERM, answers("http://"+n.address()+"/healthy")
	temporary := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += kind + "_temp_path " + kind + ";\n"
	}
	return n.folder.owner.write(path, fmt.Sprintf("daemon off; pid nginx.pid; error_log stderr;\n%s\nevents {\n%s\n}\n"+
		"http {\naccess_log off;\n%s%s\nserver {\nlisten %s backlog=65535;\nlocation = /healthy { return 200; }\n%s\n}\n}\n",
		o.Main, o.Events, temporary, o.HTTP, n.address(), o.Server))
}

// Address returns the host and port on which the server listens.
func (n *Nginx) Address() string { return n.address() }
