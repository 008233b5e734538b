// Package restate installs Restate's server from npm and runs it, as a peer for comparison.
package restate

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/bench/child"
)

//go:embed package.json
var packageJSON []byte

//go:embed package-lock.json
var packageLock []byte

// configuration is the fastest configuration found for a small machine: few partitions, much memory. There is no
// telemetry, and all listeners are on the loopback interface.
const configuration = `
cluster-name = "bench"
node-name = "bench"
default-num-partitions = 2
rocksdb-total-memory-size = "4.0 GiB"
disable-telemetry = true
disable-prometheus = true
listen-mode = "tcp"
bind-ip = "127.0.0.1"
advertised-host = "127.0.0.1"
use-random-ports = true
log-filter = "warn,restate_core::network::net_util=info,restate_ingress_http=info"
log-format = "json"

[admin]
disable-web-ui = true
`

// Install fetches the pinned version into dir and returns the path of the server's binary.
func Install(ctx context.Context, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{"package.json": packageJSON, "package-lock.json": packageLock} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return "", err
		}
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	binary := filepath.Join(dir, "node_modules", "@restatedev", "restate-server-"+runtime.GOOS+"-"+arch, "bin",
		"restate-server")
	if _, err := os.Stat(binary); err != nil {
		return "", fmt.Errorf("no Restate for this platform: %w", err)
	}
	return binary, nil
}

// Server is a running Restate.
type Server struct {
	// PID is the process ID of the server.
	PID int
	// Ingress accepts calls and Admin registers deployments. Both are host and port.
	Ingress, Admin string

	child *child.Child
	log   *tail
}

// Start runs the server with its data in dir, and returns once it listens. See child.Start.
func Start(ctx context.Context, binary, dir string) (*Server, error) {
	config := filepath.Join(dir, "restate.toml")
	if err := os.WriteFile(config, []byte(configuration), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "--config-file", config, "--base-dir", filepath.Join(dir, "data"), "--no-logo")
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "DO_NOT_TRACK=1",
		// The server checks the network for newer versions; this proxy does not exist.
		"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1,localhost",
	}
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	c, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	go func() {
		<-c.Ended()
		_ = in.Close()
	}()
	s := &Server{PID: c.PID(), child: c, log: new(tail)}
	if err := s.waitUntilItListens(ctx, out); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// listening is a log line about a new listener.
type listening struct {
	Span struct {
		Address string `json:"server.address"`
		Port    int    `json:"server.port"`
		Name    string `json:"server_name"`
	} `json:"span"`
}

func (s *Server) waitUntilItListens(ctx context.Context, out io.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			line := bytes.Clone(scanner.Bytes())
			s.log.add(line)
			select {
			case lines <- line:
			case <-ctx.Done(): // the addresses are no longer needed
			}
		}
	}()
	for s.Ingress == "" || s.Admin == "" {
		select {
		case line, ok := <-lines:
			if !ok {
				return fmt.Errorf("restate ended:\n%s", s.log)
			}
			s.note(line)
		case <-ctx.Done():
			return fmt.Errorf("restate does not listen: %w\n%s", ctx.Err(), s.log)
		}
	}
	return nil
}

func (s *Server) note(line []byte) {
	var l listening
	if json.Unmarshal(line, &l) != nil {
		return
	}
	addr := net.JoinHostPort(l.Span.Address, strconv.Itoa(l.Span.Port))
	switch l.Span.Name {
	case "http-ingress-server":
		s.Ingress = addr
	case "admin-api-server":
		s.Admin = addr
	}
}

// Stop ends the server.
func (s *Server) Stop() error { return s.child.Stop() }

// Register registers the services at the address with the server whose Admin address is given. It retries until the
// server is ready, or ctx ends.
func Register(ctx context.Context, admin, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := registerOnce(ctx, admin, address)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("register with Restate: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func registerOnce(ctx context.Context, admin, address string) error {
	body := strings.NewReader(fmt.Sprintf(`{"uri":"http://%s","force":true}`, address))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+admin+"/deployments", body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 2000))
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	return nil
}
