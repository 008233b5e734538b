package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/loopback"
	"github.com/retrysafe/retrysafe/bench/peers/hops"
	"github.com/retrysafe/retrysafe/bench/plots"
	real "github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Goal 18: what a hop through the proxy costs, next to the hops that users know. All of them are separate processes in
// front of one upstream, and get requests at fixed rates, as APIs do, and not as fast as they answer.

// The other sides of the comparison.
const (
	noHop    = "no hop"
	goProxy  = "ReverseProxy"
	ourNoKey = "proxy, no key"
	ourFresh = "proxy, fresh keys"
)

func hopsGoal(ctx context.Context, r *run) (err error) {
	var s servers
	defer func() { err = errors.Join(err, s.end()) }()
	api, err := startServer[upstreamFound](ctx, &s, place{}, upstream{})
	if err != nil {
		return err
	}
	all, err := startHops(ctx, r, &s, api)
	if err != nil {
		return err
	}
	for _, rate := range []float64{plottedRate, targetRate} {
		r.progress("%.0f requests a second, %d connections", rate, connections)
		var sides []side
		for _, h := range all {
			h.rate = rate
			sides = append(sides, h.side(h.name, h.fresh, connections))
		}
		got, err := r.race(5, 2, 2*time.Second).run(ctx, sides...)
		if err != nil {
			return err
		}
		for _, name := range []string{ourFresh, ourNoKey} {
			r.add(ctx, got.added(name, rate))
		}
		for _, h := range all {
			r.add(ctx, got.hop(h.name, rate))
		}
	}
	return nil
}

// hopSide is a hop, and the requests that it gets.
type hopSide struct {
	name string
	*requests
}

// startHops starts every hop. Both of ours are one process.
func startHops(ctx context.Context, r *run, s *servers, api upstreamFound) (all []hopSide, err error) {
	upstream := api.Plain
	add := func(name string, at server) *requests {
		all = append(all, hopSide{name, requestsTo(at, upstream)})
		return all[len(all)-1].requests
	}
	add(noHop, server{api.PID, api.Plain}).KeyHeader = ""
	for _, name := range hops.Names() {
		program, err := map[string]func() (string, error){
			hops.Nginx: real.NginxPath, hops.HAProxy: real.HAProxyPath, hops.Caddy: real.CaddyPath,
		}[name]()
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(r.dir, "goal18", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		at, err := startServer[server](ctx, s, place{}, hop{Name: name, Program: program, Upstream: upstream, Dir: dir})
		if err != nil {
			return nil, err
		}
		add(name, at)
	}
	plain, err := startServer[server](ctx, s, place{}, plainProxy{upstream})
	if err != nil {
		return nil, err
	}
	add(goProxy, plain)
	proxy, err := startServer[server](ctx, s, place{profile: r.profile()}, ourProxy{Upstream: upstream})
	if err != nil {
		return nil, err
	}
	add(ourNoKey, proxy).KeyHeader = ""
	add(ourFresh, proxy)
	return all, nil
}

// mostAdded is the target for the milliseconds that our hop adds to nginx's p99, at targetRate requests a second.
const (
	mostAdded  = 0.3
	targetRate = 5000
	// plottedRate is a rate that every hop holds.
	plottedRate = 1000
)

// added returns what one of our hops adds to the p99 of nginx's.
func (r results) added(name string, rate float64) figure.Figure {
	our, their := r[name], r[hops.Nginx]
	f := figure.New(fmt.Sprintf("%s: p99 added over nginx, %.0f/s", name, rate), "ms", moreThan(their.P99, our.P99)...).
		Note("p99 %v and %v µs, p50 %v and %v µs", our.P99, their.P99, our.P50, their.P50)
	switch {
	case !our.holds(rate) || !their.holds(rate):
		return f.Note("no target: this machine does not hold the rate (%v and %v requests/s)", our.Rate, their.Rate)
	case rate == targetRate && name == ourFresh:
		return f.Want(figure.AtMost(mostAdded))
	}
	return f
}

// hop returns the p99 of a hop, with what else was measured of it.
func (r results) hop(name string, rate float64) figure.Figure {
	m := r[name]
	f := figure.New(fmt.Sprintf("%s: p99, %.0f/s", name, rate), "µs", m.P99...).
		Note("p50 %v µs; CPU of the hop: %v µs a request", m.P50, m.CPU)
	if direct := r[noHop]; name != noHop && rate == plottedRate {
		f = f.Plotted(plots.Hops, name, 50, moreThan(direct.P50, m.P50)).
			Plotted(plots.Hops, name, 99, moreThan(direct.P99, m.P99))
	}
	if !m.holds(rate) {
		f = f.Note("the rate was not held: %v requests/s", m.Rate)
	}
	return f
}

// moreThan returns by how many milliseconds durations in microseconds are longer than others, repetition by repetition.
func moreThan(others, all figure.Samples) (more figure.Samples) {
	for i := range all {
		more = append(more, (all[i]-others[i])/1000)
	}
	return more
}

// holds reports whether requests were answered at the rate at which they were planned. If they were not, they have
// queued, and their durations say how long the run was, and nothing of the hop.
func (m measured) holds(rate float64) bool { return m.Rate.Quantile(0) >= 0.98*rate }

// hop runs nginx, HAProxy or Caddy until stop is done.
type hop struct{ Name, Program, Upstream, Dir string }

func (in hop) play(stop context.Context, ready func(any) error) (any, error) {
	addr, err := loopback.FreeAddress()
	if err != nil {
		return nil, err
	}
	cmd, err := hops.Command(in.Name, in.Program, addr, in.Upstream, in.Dir)
	if err != nil {
		return nil, err
	}
	return nil, serveProgram(stop, ready, in.Name, cmd, addr, filepath.Join(in.Dir, "log"))
}
