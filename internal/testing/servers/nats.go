package servers

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
)

// The go.mod from which nats-server is built, because Debian's version is too old. It belongs to no module of the
// repository, so that no importer gets the server as a dependency.
var (
	//go:embed nats.mod
	natsMod []byte
	//go:embed nats.sum
	natsSum []byte
)

// NATS is a NATS server with JetStream.
type NATS struct{ *Instance }

// NATSOptions are the options of a NATS server. NATSOptions{} works.
type NATSOptions struct {
	// SyncAlways makes JetStream sync to disk before it answers. Without it, a power failure can lose the last two
	// minutes; a killed process loses nothing.
	SyncAlways bool
	// Config is added to the server's configuration.
	Config string
}

func (o NATSOptions) syncInterval() string {
	if o.SyncAlways {
		return "always"
	}
	return "2m"
}

// StartNATS starts a server for one test and ends it with the test. The first start on a machine builds the server,
// which takes half a minute.
func StartNATS(t testing.TB, o NATSOptions) *NATS {
	t.Helper()
	return startFor(t, LaunchNATS, o)
}

// LaunchNATS starts a server for programs without a testing.TB. It ends with Close, or with this process.
func LaunchNATS(o NATSOptions) (*NATS, error) {
	in, err := newInstance("nats", "nobody", "KILL", "")
	if err != nil {
		return nil, err
	}
	n := &NATS{in}
	return started(n, n.configure(o))
}

func (n *NATS) configure(o NATSOptions) error {
	built, err := buildTool("nats-server", natsMod, natsSum)
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(n.folder.path, name) }
	// The account of the server may not have access to the user's folders.
	if err := copyProgram(built, in("nats-server")); err != nil {
		return err
	}
	conf := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: %q }\n%s\n", n.address(),
		in("data"), o.syncInterval(), o.Config)
	n.command = []string{in("nats-server"), "-c", in("nats.conf")}
	n.stop, n.ready = syscall.SIGINT, n.greets
	return n.folder.owner.write(in("nats.conf"), conf)
}

// greets returns nil once the server sends INFO, its greeting for every client.
func (n *NATS) greets(ctx context.Context) error {
	answer, err := greeting(ctx, n.address(), "", 5)
	if err == nil && string(answer) != "INFO " {
		err = fmt.Errorf("servers: unexpected greeting of NATS: %q", answer)
	}
	return err
}

// URL returns the URL of the server.
func (n *NATS) URL() string { return "nats://" + n.address() }
