package main

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/load"
	"github.com/retrysafe/retrysafe/bench/peers"
)

// connections is the number of concurrent clients of the proxies.
const connections = 64

// requests sends requests to a server before an API, and expects that the API works as often as it should: a proxy that
// answers without the work, or works twice, cannot win.
type requests struct {
	server server
	load.Target
	upstream string  // the address of the API
	trace    string  // of the server's syncs; empty if they are not counted
	rate     float64 // requests a second; 0: each connection sends as soon as it has its answer
	runs     uint32
	sent     int64
}

// requestsTo returns requests with keys, as the proxies expect them.
func requestsTo(s server, upstream string) *requests {
	return &requests{server: s, upstream: upstream, Target: load.Target{
		Addr: s.Addr, Path: "/payments", Body: peers.RequestBody, KeyHeader: "Idempotency-Key", Quoted: true,
	}}
}

// fresh is a Peer whose requests have fresh keys, or none if the target has no header for them.
func (q *requests) fresh(ctx context.Context, connections int, d time.Duration) (peers.Done, error) {
	q.runs++
	return q.send(ctx, load.Keys{Run: q.runs}, connections, d, 1)
}

// replays returns a Peer whose requests have used keys.
func (q *requests) replays(k load.Keys) peers.Peer {
	return func(ctx context.Context, connections int, d time.Duration) (peers.Done, error) {
		return q.send(ctx, k, connections, d, 0)
	}
}

// send sends requests, for each of which the API should work so many times.
func (q *requests) send(
	ctx context.Context, k load.Keys, connections int, d time.Duration, times int64,
) (done peers.Done, err error) {
	before, err := ran(ctx, q.upstream)
	if err != nil {
		return done, err
	}
	var got load.Result
	if q.rate > 0 {
		got, err = load.RunAt(q.Target, k, connections, d, q.rate)
	} else {
		got, err = load.Run(q.Target, k, connections, d, 0)
	}
	if err != nil {
		return done, err
	}
	after, err := ran(ctx, q.upstream)
	done = peers.Done{
		Count: int64(len(got.Micros)), PerSecond: got.PerSecond(), P50: got.Micros.Median(), P99: got.Micros.Quantile(0.99),
	}
	q.sent += done.Count
	if want := times * done.Count; err == nil && after-before != want {
		err = fmt.Errorf("the work ran %d times, not %d", after-before, want)
	}
	return done, err
}

// read reads the CPU time of the server with its children, and its syncs.
func (q *requests) read(context.Context) (c counters, err error) {
	if c.cpu, err = familyCPU(q.server.PID); err == nil && q.trace != "" {
		c.syncs, err = disk.CountSyncs(q.trace)
	}
	return c, err
}

// side returns a side with so many connections.
func (q *requests) side(name string, p peers.Peer, connections int) side {
	return side{name: name, peer: p, callers: connections, read: q.read}
}
