package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/load"
	"github.com/retrysafe/retrysafe/bench/restate"
)

// Goal 8: the proxy with a SQLite file next to Restate's ingress, both with idempotency keys, as separate processes
// with the same work behind them.

func restateGoal(ctx context.Context, r *run) error {
	r.progress("install Restate")
	server, err := restate.Install(ctx, filepath.Join(r.dir, "restate"))
	if err != nil {
		return err
	}
	binary, err := buildBinary(ctx, r.dir)
	if err != nil {
		return err
	}
	for _, d := range r.disks() {
		m := match{run: r, disk: d, dir: filepath.Join(r.dir, "goal8", d.Name), ourBinary: binary, restateBinary: server}
		if err := m.play(ctx); err != nil {
			return err
		}
	}
	return nil
}

// match is the comparison on one disk.
type match struct {
	run                      *run
	disk                     disk.Disk
	dir                      string
	ourBinary, restateBinary string

	servers       servers
	ours, restate *contestant
	ourTrace      string // empty: syncs are not counted
	restateTrace  string
}

func (m *match) play(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, m.servers.end()) }()
	if err := m.start(ctx); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{m.freshKeys, m.replays, m.oneConnection, m.memory} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start starts the upstream, which uses no disk, and both contestants.
func (m *match) start(ctx context.Context) error {
	m.run.progress("start the proxy and Restate, disk %s", m.disk.Name)
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	if m.disk.Delay > 0 {
		m.ourTrace, m.restateTrace = filepath.Join(m.dir, "ours.syncs"), filepath.Join(m.dir, "restate.syncs")
	}
	upstream, err := startServer[upstreamFound](ctx, &m.servers, disk.Disk{}, "", "", "upstream", nil)
	if err != nil {
		return err
	}
	ours, err := m.startOurs(ctx, upstream.Plain)
	if err != nil {
		return err
	}
	m.ours = &contestant{upstream: upstream.Plain, pid: ours.PID, target: load.Target{
		Addr: ours.Addr, Path: "/payments", Body: chargeBody, KeyHeader: "Idempotency-Key", Quoted: true,
	}}
	peer, err := startServer[restateFound](ctx, &m.servers, m.disk, m.restateTrace, "", "restate",
		restateAsked{Binary: m.restateBinary, Dir: m.dir})
	if err != nil {
		return err
	}
	m.restate = &contestant{upstream: upstream.Plain, pid: peer.PID, target: load.Target{
		Addr: peer.Ingress, Path: "/payments/charge", Body: chargeBody, KeyHeader: "Idempotency-Key",
	}}
	return restate.Register(ctx, peer.Admin, upstream.Restate)
}

// startOurs starts the command, or for a profile the same proxy as a role.
func (m *match) startOurs(ctx context.Context, upstream string) (proxyFound, error) {
	store := filepath.Join(m.dir, "keys.db")
	if profile := m.run.profile(8); profile != "" {
		return startServer[proxyFound](ctx, &m.servers, m.disk, m.ourTrace, profile, "proxy",
			proxyAsked{Upstream: upstream, Store: store})
	}
	return startServer[proxyFound](ctx, &m.servers, m.disk, m.ourTrace, "", "binary",
		binaryAsked{Binary: m.ourBinary, Upstream: upstream, Store: store, Log: filepath.Join(m.dir, "proxy.log")})
}

// turns runs both sides in turn; the first round is a warm-up. syncs are per request, over the other rounds.
func (m *match) turns(rounds int, play func(*contestant) error) (ourSyncs, restateSyncs float64, err error) {
	var before [2]int
	for i := range 1 + rounds {
		if err := errors.Join(play(m.restate), play(m.ours)); err != nil {
			return 0, 0, err
		}
		if i > 0 {
			continue
		}
		for j, c := range []*contestant{m.ours, m.restate} {
			c.forget()
			before[j] = c.sent
		}
		if ourSyncs, restateSyncs, err = m.countSyncs(); err != nil {
			return 0, 0, err
		}
	}
	ourEnd, restateEnd, err := m.countSyncs()
	ourSyncs = (ourEnd - ourSyncs) / float64(m.ours.sent-before[0])
	restateSyncs = (restateEnd - restateSyncs) / float64(m.restate.sent-before[1])
	return ourSyncs, restateSyncs, err
}

func (m *match) countSyncs() (ours, restate float64, err error) {
	if m.ourTrace == "" {
		return 0, 0, nil
	}
	a, err := disk.CountSyncs(m.ourTrace)
	if err != nil {
		return 0, 0, err
	}
	b, err := disk.CountSyncs(m.restateTrace)
	return float64(a), float64(b), err
}

func (m *match) freshKeys(ctx context.Context) error {
	m.run.progress("fresh keys, %d connections, disk %s", connections, m.disk.Name)
	sync, err := m.run.sync(ctx, m.disk)
	if err != nil {
		return err
	}
	a, b, err := m.turns(m.run.rounds(5, 3), func(c *contestant) error {
		return c.fresh(ctx, connections, m.run.length(2*time.Second))
	})
	if err != nil {
		return err
	}
	fig := m.figure("fresh", freshTarget(sync.Median()))
	fig.Sync = sync.Median()
	if m.ourTrace != "" {
		fig.Aside += fmt.Sprintf("; syncs a request: %.2f and %.2f", a, b)
	}
	m.run.add(ctx, fig)
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

// replayed is the number of keys in replays.
const replayed = 1000

func (m *match) replays(ctx context.Context) error {
	m.run.progress("replays, %d connections, disk %s", connections, m.disk.Name)
	keys := load.Keys{Run: 1 << 31, Among: replayed}
	for _, c := range []*contestant{m.ours, m.restate} {
		if _, err := load.Run(c.target, keys, connections, 0, replayed); err != nil {
			return err
		}
	}
	_, _, err := m.turns(m.run.rounds(5, 3), func(c *contestant) error {
		return c.replays(ctx, keys, connections, m.run.length(time.Second))
	})
	if err != nil {
		return err
	}
	m.run.add(ctx, m.figure("replay", 2.2))
	return nil
}

// figure compares the rates just measured.
func (m *match) figure(what string, target float64) figure.Figure {
	return figure.Figure{
		Goal: 8, Disk: m.disk.Name, Unit: "x", What: "proxy + SQLite ÷ Restate, 64 conns: " + what,
		Samples: ratios(m.ours.rates, m.restate.rates), Target: figure.AtLeast(target),
		Aside: fmt.Sprintf("%s ÷ %s requests/s; CPU of the server: %s and %s µs a request",
			figure.Short(figure.Median(m.ours.rates)), figure.Short(figure.Median(m.restate.rates)),
			figure.Short(figure.Median(m.ours.cpu)), figure.Short(figure.Median(m.restate.cpu))),
	}
}

func (m *match) oneConnection(ctx context.Context) error {
	m.run.progress("fresh keys, one connection, disk %s", m.disk.Name)
	sync, err := m.run.sync(ctx, m.disk)
	if err != nil {
		return err
	}
	if _, _, err := m.turns(m.run.rounds(5, 3), func(c *contestant) error {
		return c.fresh(ctx, 1, m.run.length(time.Second))
	}); err != nil {
		return err
	}
	fig := figure.Figure{
		Goal: 8, Disk: m.disk.Name, Sync: sync.Median(), Unit: "x", What: "p50, 1 connection, fresh: ours ÷ Restate's",
		Samples: ratios(m.ours.p50, m.restate.p50),
		Aside: fmt.Sprintf("%s ÷ %s µs", figure.Short(figure.Median(m.ours.p50)),
			figure.Short(figure.Median(m.restate.p50))),
	}
	if sync.Median() <= fastSync {
		fig.Target = figure.AtMost(0.25)
	} else {
		fig.Aside += "; no target with such a sync: a claim and a completion are two, however fast the rest"
	}
	m.run.add(ctx, fig)
	return nil
}

func (m *match) memory(ctx context.Context) error {
	ours, err := residentBytes(m.ours.pid)
	if err != nil {
		return err
	}
	peer, err := residentBytes(m.restate.pid)
	if err != nil {
		return err
	}
	m.run.add(ctx, figure.Figure{
		Goal: 8, Disk: m.disk.Name, Unit: "x", What: "RSS at the end: ours ÷ Restate's",
		Samples: []float64{ours / peer}, Target: figure.AtMost(1.0 / 3),
		Aside: fmt.Sprintf("%.0f ÷ %.0f MiB, after %s and %s requests. Restate (2 partitions, 4 GB) also journals the steps "+
			"of its handlers and retries them until they end, which the proxy does not.", ours/mib, peer/mib,
			figure.Short(float64(m.ours.sent)), figure.Short(float64(m.restate.sent))),
	})
	return nil
}
