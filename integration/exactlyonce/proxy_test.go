//go:build unix

package exactlyonce

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// proxy is the command in front of a service. It is killed and started again; each time it has another address.
type proxy struct {
	*testing.T
	program string
	config  string
	log     *text

	mu      sync.Mutex
	url     string
	command *exec.Cmd
	ended   chan struct{}
}

// The times of a route. In production they are longer.
var (
	timeout = 2 * time.Second
	lease   = 3 * time.Second
)

// newProxy starts a proxy for a service, with these times of its route.
func newProxy(s *stand, upstream string, timeout, lease time.Duration) *proxy {
	s.Helper()
	return startProxy(s, fmt.Sprintf(`
upstream: %s
store: %s
listen: 127.0.0.1:0
log: json
routes:
  POST /charges: {complete: upstream, timeout: %v, lease: %v}
`, upstream, s.url, timeout, lease))
}

// startProxy starts a proxy with a configuration.
func startProxy(s *stand, config string) *proxy {
	s.Helper()
	p := &proxy{
		T: s.T, program: build(s.T, "../../cmd/retrysafe"), config: filepath.Join(s.TempDir(), "proxy.yaml"), log: &s.log,
	}
	if err := os.WriteFile(p.config, []byte(config), 0o600); err != nil {
		s.Fatal(err)
	}
	p.start()
	s.Cleanup(p.kill)
	return p
}

// address returns the URL of the present process.
func (p *proxy) address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url
}

// start starts a process, and returns once it listens.
func (p *proxy) start() {
	c := exec.Command(p.program, "proxy", "--config="+p.config)
	c.Dir = filepath.Dir(p.config)
	log, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		p.Error(err)
		return
	}
	listening, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			fmt.Fprintln(p.log, lines.Text())
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
				listening <- line.Address
			}
		}
		_ = c.Wait() // it is killed
	}()
	select {
	case address := <-listening:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.url, p.command, p.ended = "http://"+address, c, ended
	case <-ended:
		p.Errorf("the proxy ended before it listened:\n%s", p.log)
	case <-time.After(patience):
		p.Errorf("the proxy does not listen:\n%s", p.log)
	}
}

// kill ends the process by SIGKILL, and returns when it is gone.
func (p *proxy) kill() {
	if p.command != nil {
		_ = p.command.Process.Kill()
		<-p.ended
	}
}

func (p *proxy) signal(s syscall.Signal) {
	if err := p.command.Process.Signal(s); err != nil {
		p.Error(err)
	}
}
