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

func (in binary) play(stop context.Context, ready func(any) error) (_ any, err error) {
	addr, err := loopback.FreeAddress()
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
	starting, cancel := context.WithTimeout(stop, 30*time.Second)
	defer cancel()
	listens := func() bool {
		conn, err := net.Dial("tcp", addr)
		return err == nil && conn.Close() == nil
	}
	if err := c.Await(starting, listens); err != nil {
		text, _ := os.ReadFile(in.Log)
		return nil, fmt.Errorf("retrysafe proxy: %w\n%s", err, text)
	}
	if err := ready(server{c.PID(), addr}); err != nil {
		return nil, err
	}
	<-stop.Done()
	return nil, nil
}
