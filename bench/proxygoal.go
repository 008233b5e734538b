package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/load"
)

// Goal 7: the cost that the proxy adds to a plain reverse proxy. Both are separate processes in front of the same
// upstream.

func proxyGoal(ctx context.Context, r *run) (err error) {
	var s servers
	defer func() { err = errors.Join(err, s.end()) }()
	upstream, err := startServer[upstreamFound](ctx, &s, disk.Disk{}, "", "", "upstream", nil)
	if err != nil {
		return err
	}
	asked := proxyAsked{Upstream: upstream.Plain}
	plain, err := startServer[proxyFound](ctx, &s, disk.Disk{}, "", "", "plain", asked)
	if err != nil {
		return err
	}
	ours, err := startServer[proxyFound](ctx, &s, disk.Disk{}, "", r.profile(7), "proxy", asked)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		what, header string
		target       float64
	}{
		{"proxy on memstore ÷ ReverseProxy, fresh keys", "Idempotency-Key", 0.95},
		{"proxy ÷ ReverseProxy, requests without key", "", 0.98},
	} {
		r.progress("%s, %d connections", c.what, connections)
		side := func(p proxyFound) *contestant {
			return &contestant{upstream: upstream.Plain, pid: p.PID, target: load.Target{
				Addr: p.Addr, Path: "/payments", Body: chargeBody, KeyHeader: c.header, Quoted: true,
			}}
		}
		a, b := side(ours), side(plain)
		if err := takeTurns(ctx, r, a, b); err != nil {
			return err
		}
		r.add(ctx, figure.Figure{
			Goal: 7, Unit: "x", What: c.what, Samples: ratios(a.rates, b.rates), Target: figure.AtLeast(c.target),
			Aside: fmt.Sprintf("%s ÷ %s requests/s; CPU of the proxy's process: %s and %s µs a request",
				figure.Short(figure.Median(a.rates)), figure.Short(figure.Median(b.rates)),
				figure.Short(figure.Median(a.cpu)), figure.Short(figure.Median(b.cpu))),
		})
	}
	return nil
}

// takeTurns sends fresh requests to both sides in turn, in many short rounds.
func takeTurns(ctx context.Context, r *run, a, b *contestant) error {
	for i := range 1 + r.rounds(9, 5) {
		for _, c := range []*contestant{b, a} {
			if err := c.fresh(ctx, connections, r.length(900*time.Millisecond)); err != nil {
				return err
			}
			if i == 0 {
				c.forget()
			}
		}
	}
	return nil
}
