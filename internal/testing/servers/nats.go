package servers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// What nats.mod and nats.sum say is built: Debian's server is too old. They are no part of any module of the repository, so
// nothing that imports one has the server among its dependencies.
var (
	//go:embed nats.mod
	natsMod []byte
	//go:embed nats.sum
	natsSum []byte
)

// NATS is a NATS server with JetStream.
type NATS struct{ *Instance }

// NATSOptions may be left empty.
type NATSOptions struct {
	// SyncAlways makes JetStream write through to the disk before it answers. Without it a power failure can lose the last
	// two minutes; a killed process loses nothing.
	SyncAlways bool
	// Env is added to the server's environment.
	Env []string
}

// StartNATS starts a server of the test's own, which ends with the test. The first on a machine is built, which takes half a
// minute.
func StartNATS(t testing.TB, o NATSOptions) *NATS {
	t.Helper()
	n, err := LaunchNATS(o)
	check(t, err)
	n.closeWith(t)
	return n
}

// LaunchNATS starts a server for whoever has no testing.TB. It ends with Close, or with this process.
func LaunchNATS(o NATSOptions) (*NATS, error) {
	in, err := newInstance("nats", "nobody", "KILL", "")
	if err != nil {
		return nil, err
	}
	n := &NATS{in}
	if err = n.configure(o); err == nil {
		err = n.start()
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *NATS) configure(o NATSOptions) error {
	built, err := buildTool("nats-server", natsMod, natsSum)
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(n.folder.path, name) }
	// Whoever runs the server may not reach the builder's cache.
	if err := copyProgram(built, in("nats-server")); err != nil {
		return err
	}
	sync := "2m"
	if o.SyncAlways {
		sync = "always"
	}
	conf := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: %q }\n", n.address(), in("data"), sync)
	n.command = append(append([]string{}, o.Env...), in("nats-server"), "-c", in("nats.conf"))
	n.stop, n.ready = syscall.SIGINT, n.greets
	return n.folder.owner.write(in("nats.conf"), conf)
}

// greets returns nil once the server says INFO, as it does to every client.
func (n *NATS) greets(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.address())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	answer := make([]byte, 5)
	if _, err := conn.Read(answer); err != nil {
		return err
	}
	if string(answer) != "INFO " {
		return errors.New("servers: NATS answers " + strconv.Quote(string(answer)))
	}
	return nil
}

// URL of the server.
func (n *NATS) URL() string { return "nats://" + n.address() }
