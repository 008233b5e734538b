package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// configuration is the proxy's file.
const configuration = `# Written by retrysafe demo.
defaults:
  lease: 2s                  # after a crash, a key is in doubt this soon
  in_flight: reject          # 409 at once, so that the demo shows it; by default a retry waits 5s
routes:
  POST /charges: {}          # an abandoned charge is refused: the default
  POST /v2/charges:          # this one recognises a repeat by its key,
    abandoned: rerun         #   so it may be sent again,
    upstream_key: Charge-Key #   with the same key, in this header
`

// inboxConfiguration is more of the file, for stores in which requests can wait.
const inboxConfiguration = `  POST /events:              # acknowledged when it is on disk, and then delivered,
    accept: inbox            #   also if the API is down meanwhile
    deliver:
      keep_headers: [Authorization] # who sent it: the API reads that here
`

// process is the proxy as a process of the operating system, which can be killed.
type process struct {
	binary        string
	directory     string // absolute; the proxy runs in it
	configuration string // its file
	upstream      string // URL
	store         Store
	address       string // 127.0.0.1:41234; empty until the first start

	*child // nil until the first start
}

// arguments are what follows the program's name, as it is shown.
func (p *process) arguments(address string) []string {
	return append(p.settings(address), "--store", p.store.Name)
}

// settings are the arguments without the store, which comes by the environment: it may hold a password.
func (p *process) settings(address string) []string {
	return []string{
		"proxy", "--upstream", p.upstream, "--listen", address, "--scope", "credential", "--config", "proxy.yaml",
	}
}

func (p *process) file(name string) string { return filepath.Join(p.directory, name) }

// start starts the proxy and returns once it answers. A second start has the same address and the same files.
func (p *process) start(ctx context.Context) error {
	if p.address != "" {
		return p.startAt(ctx, p.address)
	}
	if err := os.WriteFile(p.file("proxy.yaml"), []byte(p.configuration), 0o600); err != nil {
		return fmt.Errorf("configure the proxy: %w", err)
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	p.address = address
	return p.startAt(ctx, address)
}

func (p *process) startAt(ctx context.Context, address string) error {
	log, err := os.OpenFile(p.file("proxy.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start the proxy: %w", err)
	}
	defer log.Close() // the child has its own
	command := exec.Command(p.binary, append([]string{"--exit-with-stdin"}, p.settings(address)...)...)
	command.Dir, command.Stdout, command.Stderr = p.directory, log, log
	command.Env = append(withoutSettings(os.Environ()), "RETRYSAFE_STORE="+p.store.URL)
	if p.child, err = startChild(command, "the proxy"); err != nil {
		return err
	}
	return p.ready(ctx)
}

// startTimeout is how long the proxy may take until it answers.
const startTimeout = 15 * time.Second

// ready returns once a request gets through the proxy to the API.
func (p *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("it does not answer"))
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !answers(ctx, "http://"+p.address+"/charges") {
		select {
		case <-again.C:
		case <-p.ended:
			return p.failed(errors.New("it has ended"))
		case <-ctx.Done():
			return p.failed(context.Cause(ctx))
		}
	}
	return nil
}

func answers(ctx context.Context, url string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	r.Close = true
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// failed returns an error with the end of the proxy's log.
func (p *process) failed(why error) error {
	return fmt.Errorf("the proxy cannot be started: %w; the end of its log:\n  %s\n"+
		"To look closer, keep its files (--keep DIR), go there and run:\n  %s %s", why, lastLines(p.file("proxy.log")),
		p.binary, strings.Join(p.arguments(p.address), " "))
}

// lastLines returns the end of a log, indented.
func lastLines(log string) []byte {
	text, _ := os.ReadFile(log) // without it the error is still useful
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-5):], []byte("\n  "))
}

// freeAddress returns an address on which no process listens at the moment.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port on 127.0.0.1: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// withoutSettings leaves out what configures a proxy of the user's own.
func withoutSettings(environment []string) []string {
	var rest []string
	for _, e := range environment {
		if !strings.HasPrefix(e, "RETRYSAFE_") {
			rest = append(rest, e)
		}
	}
	return rest
}
