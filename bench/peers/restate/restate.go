// Package restate installs Restate's server from npm and runs it.
package restate

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	sdk "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"

	"github.com/retrysafe/retrysafe/bench/child"
	"github.com/retrysafe/retrysafe/bench/loopback"
	"github.com/retrysafe/retrysafe/bench/peers/npm"
)

//go:embed package.json package-lock.json
var files embed.FS

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
	if err := npm.InstallFiles(ctx, dir, files); err != nil {
		return "", err
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
}

// Start runs the server with its data in dir, and returns once it listens.
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
	s := &Server{PID: c.PID(), child: c}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	defer stop()
	go func() {
		<-c.Ended()
		_ = in.Close()
	}()
	if err := s.awaitAddresses(out); err != nil {
		return nil, errors.Join(err, out.Close(), s.Stop())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return s, nil
}

// awaitAddresses reads the server's log until it has named both listeners.
func (s *Server) awaitAddresses(out io.Reader) error {
	var log bytes.Buffer
	lines := bufio.NewScanner(io.TeeReader(out, &log))
	for s.Ingress == "" || s.Admin == "" {
		if !lines.Scan() {
			return fmt.Errorf("restate does not listen: %w\n%s", cmp.Or(lines.Err(), io.EOF), &log)
		}
		s.note(lines.Bytes())
	}
	return nil
}

// listening is a log line about a new listener.
type listening struct {
	Span struct {
		Address string `json:"server.address"`
		Port    int    `json:"server.port"`
		Name    string `json:"server_name"`
	} `json:"span"`
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
	body := fmt.Sprintf(`{"uri":"http://%s","force":true}`, address)
	for {
		_, err := loopback.Call(ctx, http.MethodPost, "http://"+admin+"/deployments", body)
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

// Service returns a service with one handler, which the server calls with the body of each request.
func Service[I, O any](name, handler string, work func(I) O) (http.Handler, error) {
	return server.NewRestate().WithLogger(slog.DiscardHandler, true).Bind(sdk.NewService(name).Handler(handler,
		sdk.NewServiceHandler(func(_ sdk.Context, in I) (O, error) { return work(in), nil }))).Handler()
}
