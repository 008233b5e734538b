package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/bench/child"
	"github.com/retrysafe/retrysafe/bench/compare/orders"
	"github.com/retrysafe/retrysafe/bench/loopback"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// process is a running peer. It ends with this process, however that ends.
type process struct {
	command func() *exec.Cmd
	address string
	api     orders.API
	log     string
	child   *child.Child
	store   interface{ Close() error } // nil: none
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
		text, _ := os.ReadFile(p.log)
		return fmt.Errorf("it does not answer: %w; the end of its log: %s", err, text[max(0, len(text)-2000):])
	}
	return nil
}

func (p *process) answers(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/effects", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req) // a server of another API answers 404
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil
}

// crash kills the peer, which has no time for anything, and starts it again.
func (p *process) crash(ctx context.Context) error {
	if err := syscall.Kill(p.child.PID(), syscall.SIGKILL); err != nil {
		return err
	}
	<-p.child.Ended()
	return p.start(ctx)
}

// stop ends the peer and its store.
func (p *process) stop() error {
	var err error
	if p.child != nil {
		err = p.child.Stop()
	}
	if p.store != nil {
		err = errors.Join(err, p.store.Close())
	}
	return err
}

// openStore starts the server that keeps a subject's records, and returns its URL. It lives on when the subject is
// killed.
func openStore(name string) (store interface{ Close() error }, url string, err error) {
	switch name {
	case "redis":
		s, err := servers.LaunchRedis(servers.RedisOptions{})
		if err != nil {
			return nil, "", err
		}
		return s, s.URL(), nil
	case "postgres":
		s, err := servers.LaunchPostgres(servers.PostgresOptions{})
		if err != nil {
			return nil, "", err
		}
		return s, s.URL("postgres"), nil
	case "nats":
		s, err := servers.LaunchNATS(servers.NATSOptions{})
		if err != nil {
			return nil, "", err
		}
		return s, s.URL(), nil
	}
	return nil, "", fmt.Errorf("no store %q", name)
}

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
	p := &process{
		command: func() *exec.Cmd { return s.runs.command(r) }, address: address,
		api: r.api(), log: filepath.Join(dir, "log"),
	}
	if s.store != "" {
		p.store, r.store, err = openStore(s.store)
	}
	return p, err
}

// ownCommand serves the role by this program.
func ownCommand(r role) *exec.Cmd {
	return exec.Command("/proc/self/exe", "-serve", r.name, "-profile", r.profile, "-address", r.address, "-dir",
		r.dir, "-server", r.server, "-store", r.store)
}
