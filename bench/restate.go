package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/load"
	"github.com/retrysafe/retrysafe/bench/peers/restate"
	real "github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Goal 8: the proxy with a SQLite file next to Restate's ingress, both with idempotency keys, as separate processes
// with the same work behind them.

func restateGoal(ctx context.Context, r *run) error {
	peer, err := r.installRestate(ctx)
	if err != nil {
		return err
	}
	binary, err := real.Retrysafe()
	if err != nil {
		return err
	}
	for _, d := range r.disks() {
		m := match{run: r, disk: d, dir: filepath.Join(r.dir, "goal8", d.Name)}
		if err := m.play(ctx, binary, peer); err != nil {
			return err
		}
	}
	return nil
}

// installRestate installs Restate for all goals that compare with it, and returns the path of the server's binary.
func (r *run) installRestate(ctx context.Context) (string, error) {
	if r.restateServer != "" {
		return r.restateServer, nil
	}
	r.progress("install Restate")
	var err error
	r.restateServer, err = restate.Install(ctx, filepath.Join(r.dir, "restate"))
	return r.restateServer, err
}

// match is the comparison on one disk.
type match struct {
	*run
	disk          disk.Disk
	dir           string
	routes        string // of the proxy's file; empty for none
	servers       servers
	ours, restate *requests
}

func (m *match) play(ctx context.Context, binary, peer string) (err error) {
	defer func() { err = errors.Join(err, m.servers.end()) }()
	if err := m.start(ctx, binary, peer); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{m.freshKeys, m.replays, m.oneConnection, m.memory} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start starts the upstream, which uses no disk, and both sides.
func (m *match) start(ctx context.Context, command, peer string) error {
	m.progress("start the proxy and Restate, disk %s", m.disk.Name)
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	our, their := place{disk: m.disk}, place{disk: m.disk}
	if m.disk.Delay > 0 {
		our.trace, their.trace = filepath.Join(m.dir, "ours.syncs"), filepath.Join(m.dir, "restate.syncs")
	}
	api, err := startServer[upstreamFound](ctx, &m.servers, place{}, upstream{})
	if err != nil {
		return err
	}
	store := filepath.Join(m.dir, "keys.db")
	config := ""
	if m.routes != "" {
		config = filepath.Join(m.dir, "proxy.yaml")
		if err := os.WriteFile(config, []byte(m.routes), 0o600); err != nil {
			return err
		}
	}
	var proxy role = binary{
		Binary: command, Upstream: api.Plain, Store: store, Config: config, Log: filepath.Join(m.dir, "proxy.log"),
	}
	if our.profile = m.profile(); our.profile != "" { // the same proxy, as a role
		proxy = ourProxy{Upstream: api.Plain, Store: store}
	}
	started, err := startServer[server](ctx, &m.servers, our, proxy)
	if err != nil {
		return err
	}
	m.ours = requestsTo(started, api.Plain)
	m.ours.trace = our.trace
	found, err := startServer[restateFound](ctx, &m.servers, their, restateServer{Binary: peer, Dir: m.dir})
	if err != nil {
		return err
	}
	m.restate = requestsTo(found.server, api.Plain)
	m.restate.trace, m.restate.Path, m.restate.Quoted = their.trace, "/payments/charge", false
	return restate.Register(ctx, found.Admin, api.Restate)
}

func (m *match) freshKeys(ctx context.Context) error {
	m.progress("fresh keys, %d connections, disk %s", connections, m.disk.Name)
	sync, err := m.sync(ctx, m.disk)
	if err != nil {
		return err
	}
	got, err := m.race(5, 3, 2*time.Second).run(ctx, m.restate.side(theirs, m.restate.fresh, connections),
		m.ours.side(ours, m.ours.fresh, connections))
	if err != nil {
		return err
	}
	fig := m.figure("fresh", got, freshTarget(sync.Samples.Median()))
	fig.Sync = sync.Samples.Median()
	if m.ours.trace != "" {
		fig = fig.Note("syncs a request: %.2f and %.2f", got[ours].Syncs.Median(), got[theirs].Syncs.Median())
	}
	m.add(ctx, fig)
	return nil
}

// With slow syncs both sides wait for the disk, and their other costs count less. The targets for fresh keys
// therefore depend on the duration of a sync in microseconds; up to fastSync they are those of a fast disk.
const fastSync = 150

// freshTarget returns the required ratio of the proxy's rate of fresh requests to Restate's.
func freshTarget(sync float64) float64 {
	if sync <= fastSync {
		return 3
	}
	return 2.3
}

func (m *match) replays(ctx context.Context) error {
	m.progress("replays, %d connections, disk %s", connections, m.disk.Name)
	keys := load.Keys{Run: 1 << 31, Among: replayed}
	for _, q := range []*requests{m.ours, m.restate} {
		if _, err := load.Run(q.Target, keys, connections, 0, replayed); err != nil {
			return err
		}
	}
	got, err := m.race(5, 3, time.Second).run(ctx, m.restate.side(theirs, m.restate.replays(keys), connections),
		m.ours.side(ours, m.ours.replays(keys), connections))
	if err != nil {
		return err
	}
	m.add(ctx, m.figure("replay", got, 2.2))
	return nil
}

// figure compares the rates.
func (m *match) figure(what string, got results, target float64) figure.Figure {
	return got.rates("proxy + SQLite ÷ Restate, 64 conns: "+what, "requests/s").
		On(m.disk.Name).Want(figure.AtLeast(target)).
		Note("CPU of the server: %v and %v µs a request", got[ours].CPU, got[theirs].CPU)
}

func (m *match) oneConnection(ctx context.Context) error {
	m.progress("fresh keys, one connection, disk %s", m.disk.Name)
	sync, err := m.sync(ctx, m.disk)
	if err != nil {
		return err
	}
	got, err := m.race(5, 3, time.Second).run(ctx, m.restate.side(theirs, m.restate.fresh, 1),
		m.ours.side(ours, m.ours.fresh, 1))
	if err != nil {
		return err
	}
	fig := figure.Ratio("p50, 1 connection, fresh: ours ÷ Restate's", got[ours].P50, got[theirs].P50, "µs").
		On(m.disk.Name)
	if fig.Sync = sync.Samples.Median(); fig.Sync <= fastSync {
		fig = fig.Want(figure.AtMost(0.25))
	} else {
		fig = fig.Note("no target with such a sync: a claim and a completion are two, however fast the rest")
	}
	m.add(ctx, fig)
	return nil
}

func (m *match) memory(ctx context.Context) error {
	our, err := residentBytes(m.ours.server.PID)
	if err != nil {
		return err
	}
	their, err := residentBytes(m.restate.server.PID)
	if err != nil {
		return err
	}
	m.add(ctx, figure.New("RSS at the end: ours ÷ Restate's", "x", our/their).On(m.disk.Name).Want(figure.AtMost(1.0/3)).
		Note("%.0f ÷ %.0f MiB, after %s and %s requests", our/mib, their/mib, figure.Short(float64(m.ours.sent)),
			figure.Short(float64(m.restate.sent))).
		Note("Restate (2 partitions, 4 GB) also journals the steps of its handlers and retries them until they end, "+
			"which the proxy does not"))
	return nil
}
