package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/bench/child"
	"github.com/retrysafe/retrysafe/bench/loopback"
	"github.com/retrysafe/retrysafe/bench/peers/express"
)

// process is a running peer. It ends with this process, however that ends.
type process struct {
	command func() *exec.Cmd
	address string
	log     string
	child   *child.Child
}

// startup bounds how long a peer takes until it answers.
const startup = 90 * time.Second

// start starts the peer, and returns once it answers.
func (p *process) start(ctx context.Context) error {
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := p.command()
	cmd.Stdout, cmd.Stderr = log, log
	if p.child, err = child.Start(cmd); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startup)
	defer cancel()
	if err := p.child.Await(ctx, func() bool { return p.answers(ctx) }); err != nil {
		return fmt.Errorf("the peer does not answer: %w: see %s", err, p.log)
	}
	return nil
}

func (p *process) answers(ctx context.Context) bool {
	_, err := loopback.Call(ctx, http.MethodGet, "http://"+p.address+"/effects", "")
	return err == nil
}

// crash kills the peer, which has no time for anything, and starts it again.
func (p *process) crash(ctx context.Context) error {
	if err := syscall.Kill(p.child.PID(), syscall.SIGKILL); err != nil {
		return err
	}
	<-p.child.Ended()
	return p.start(ctx)
}

// stop ends the peer.
func (p *process) stop() error { return p.child.Stop() }

// newProcess is the peer of that name in a directory of its own.
func newProcess(s subject, profile, dir string) (*process, error) {
	dir = filepath.Join(dir, s.Name+"-"+profile)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	address, err := loopback.FreeAddress()
	if err != nil {
		return nil, err
	}
	r := role{name: s.Name, profile: profile, address: address, dir: dir, server: s.installed}
	return &process{
		command: func() *exec.Cmd { return s.command(r) }, address: address,
		log: filepath.Join(dir, "log"),
	}, nil
}

// ownCommand serves the role by this program.
func ownCommand(r role) *exec.Cmd {
	return exec.Command("/proc/self/exe", "-serve", r.name, "-profile", r.profile, "-address", r.address, "-dir",
		r.dir, "-server", r.server)
}

// expressCommand serves the role by node.
func expressCommand(r role) *exec.Cmd {
	_, port, _ := net.SplitHostPort(r.address)
	return express.Command(r.server, r.dir, port, string(r.api().effects))
}
