package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/retrysafe/retrysafe/bench/child"
	"github.com/retrysafe/retrysafe/bench/loopback"
)

// binary runs `retrysafe proxy`. An empty Config is none.
type binary struct{ Binary, Upstream, Store, Config, Log string }

func (in binary) play(stop context.Context, ready func(any) error) (any, error) {
	addr, err := loopback.FreeAddress()
	if err != nil {
		return nil, err
	}
	args := []string{
		"proxy", "--upstream", "http://" + in.Upstream, "--listen", addr, "--store", in.Store, "--scope", "none",
	}
	if in.Config != "" {
		args = append(args, "--config", in.Config)
	}
	return nil, serveProgram(stop, ready, "retrysafe proxy", exec.Command(in.Binary, args...), addr, in.Log)
}

// serveProgram runs a program that serves at an address until stop is done. What it prints goes to a file.
func serveProgram(
	stop context.Context, ready func(any) error, name string, cmd *exec.Cmd, addr, logFile string,
) (err error) {
	log, err := os.Create(logFile)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	c, err := child.Start(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	starting, cancel := context.WithTimeout(stop, 30*time.Second)
	defer cancel()
	listens := func() bool {
		conn, err := net.Dial("tcp", addr)
		return err == nil && conn.Close() == nil
	}
	if err := c.Await(starting, listens); err != nil {
		text, _ := os.ReadFile(logFile)
		return fmt.Errorf("%s: %w\n%s", name, err, text)
	}
	if err := ready(server{c.PID(), addr}); err != nil {
		return err
	}
	<-stop.Done()
	return nil
}
