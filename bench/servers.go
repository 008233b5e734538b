package main

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/load"
)

// connections is the number of concurrent clients of the proxies.
const connections = 64

// servers are the processes that a goal has started.
type servers struct{ running []*process }

// startServer starts a role that serves, and waits until it is ready.
func startServer[T any](ctx context.Context, s *servers, d disk.Disk, trace, profile, name string, in any) (T, error) {
	var ready T
	p, err := startRole(ctx, d, trace, profile, name, in)
	if err != nil {
		return ready, err
	}
	s.running = append(s.running, p)
	return ready, p.answer(&ready)
}

// end ends the servers in reverse order.
func (s *servers) end() error {
	var errs []error
	for i := len(s.running) - 1; i >= 0; i-- {
		errs = append(errs, s.running[i].end())
	}
	s.running = nil
	return errors.Join(errs...)
}

// contestant is one side of a comparison over HTTP.
type contestant struct {
	target load.Target
	// upstream is the address that counts how often the work has run.
	upstream string
	pid      int // the process whose CPU time is measured; 0 for none
	runs     uint32
	sent     int // in all

	rates, p50, cpu []float64
}

// fresh sends requests with fresh keys, or without keys if the target has no header for them. The work must run once
// for each.
func (c *contestant) fresh(ctx context.Context, connections int, d time.Duration) error {
	c.runs++
	before, err := ran(ctx, c.upstream)
	if err != nil {
		return err
	}
	n, err := c.send(load.Keys{Run: c.runs}, connections, d)
	if err != nil {
		return err
	}
	return expectRan(ctx, c.upstream, before, n)
}

// replays sends requests with used keys. The work must not run.
func (c *contestant) replays(ctx context.Context, k load.Keys, connections int, d time.Duration) error {
	before, err := ran(ctx, c.upstream)
	if err != nil {
		return err
	}
	if _, err := c.send(k, connections, d); err != nil {
		return err
	}
	return expectRan(ctx, c.upstream, before, 0)
}

func (c *contestant) send(k load.Keys, connections int, d time.Duration) (int, error) {
	cpu, err := processCPU(c.pid)
	if err != nil {
		return 0, err
	}
	got, err := load.Run(c.target, k, connections, d, 0)
	if err != nil {
		return 0, err
	}
	after, err := processCPU(c.pid)
	c.sent += got.Requests
	c.rates = append(c.rates, got.PerSecond())
	c.p50 = append(c.p50, float64(figure.Percentile(got.Latencies, 0.5))/1e3)
	c.cpu = append(c.cpu, float64((after-cpu).Microseconds())/float64(max(got.Requests, 1)))
	return got.Requests, err
}

// forget drops measurements, after a warm-up or before another comparison.
func (c *contestant) forget() { c.rates, c.p50, c.cpu = nil, nil, nil }
