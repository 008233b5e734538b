package main

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/bench/figure"
)

// Goal 7: the cost that the proxy adds to a plain reverse proxy. Both are separate processes in front of the same
// upstream.

func proxyGoal(ctx context.Context, r *run) (err error) {
	var s servers
	defer func() { err = errors.Join(err, s.end()) }()
	api, err := startServer[upstreamFound](ctx, &s, place{}, upstream{})
	if err != nil {
		return err
	}
	plain, err := startServer[server](ctx, &s, place{}, plainProxy{api.Plain})
	if err != nil {
		return err
	}
	proxy, err := startServer[server](ctx, &s, place{profile: r.profile()}, ourProxy{Upstream: api.Plain})
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
		a, b := requestsTo(proxy, api.Plain), requestsTo(plain, api.Plain)
		a.KeyHeader, b.KeyHeader = c.header, c.header
		got, err := r.race(9, 5, 900*time.Millisecond).run(ctx,
			b.side(theirs, b.fresh, connections), a.side(ours, a.fresh, connections))
		if err != nil {
			return err
		}
		r.add(ctx, got.rates(c.what, "requests/s").Want(figure.AtLeast(c.target)).
			Note("CPU of the proxy's process: %v and %v µs a request", got[ours].CPU, got[theirs].CPU))
	}
	return nil
}
