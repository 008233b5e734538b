package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/bench/child"
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
	if err := p.launch(cmd); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startup)
	defer cancel()
	for !p.answers(ctx) {
		select {
		case <-p.child.Ended():
			return fmt.Errorf("the peer has ended: see %s", p.log)
		case <-ctx.Done():
			return fmt.Errorf("the peer does not answer: %w: see %s", ctx.Err(), p.log)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// launch starts the command from a goroutine that stays, with its thread, as long as the command runs: see child.Start.
func (p *process) launch(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		c, err := child.Start(cmd)
		p.child = c
		started <- err
		if err == nil {
			<-c.Ended()
		}
	}()
	return <-started
}

func (p *process) answers(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/effects", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
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
	address, err := freeAddress()
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
