package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/bench/child"
)

// buildBinary builds the command from the sources in this repository.
func buildBinary(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/retrysafe/retrysafe").Output()
	if err != nil {
		return "", fmt.Errorf("find the sources (run the benchmark from inside the repository): %w", err)
	}
	binary := filepath.Join(dir, "retrysafe")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, ".") // as releases are built
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Dir = filepath.Join(strings.TrimSpace(string(root)), "cmd", "retrysafe")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build cmd/retrysafe: %w\n%s", err, out)
	}
	return binary, nil
}

// binaryAsked holds the parameters of the role. An empty Config is none.
type binaryAsked struct{ Binary, Upstream, Store, Config, Log string }

// binaryRole runs `retrysafe proxy` until stop is done.
func binaryRole(stop context.Context, text json.RawMessage, ready func(any) error) (_ any, err error) {
	var in binaryAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(in.Log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := []string{
		"proxy", "--upstream", "http://" + in.Upstream, "--listen", addr, "--store", in.Store, "--scope", "none",
	}
	if in.Config != "" {
		args = append(args, "--config", in.Config)
	}
	cmd := exec.Command(in.Binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	c, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err := untilItListens(c, addr); err != nil {
		text, _ := os.ReadFile(in.Log)
		return nil, fmt.Errorf("retrysafe proxy: %w\n%s", err, text)
	}
	if err := ready(proxyFound{PID: c.PID(), Addr: addr}); err != nil {
		return nil, err
	}
	<-stop.Done()
	return nil, nil
}

// freeAddress returns an address on which no process listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// untilItListens waits until a connection succeeds.
func untilItListens(c *child.Child, addr string) error {
	timeout := time.After(30 * time.Second)
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-c.Ended():
			return errors.New("ended at once")
		case <-timeout:
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
