package main

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers/hops"
)

// Each hop passes every request on once, with the key, and its CPU time is found, also that of nginx's workers.
//
// Seen to fail with processCPU instead of familyCPU in read: nginx took none.
func TestEachHopPassesRequestsOn(t *testing.T) {
	r := &run{dir: t.TempDir()}
	var s servers
	defer func() {
		if err := s.end(); err != nil {
			t.Error(err)
		}
	}()
	api, err := startServer[upstreamFound](t.Context(), &s, place{}, upstream{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := startHops(t.Context(), r, &s, api)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		h.rate = 1000
		var m measured
		if err := m.round(t.Context(), h.side(h.name, h.fresh, 4), time.Second); err != nil {
			t.Errorf("%s: %v", h.name, err)
		} else if m.Count != 1000 || m.CPU.Median() <= 0 || m.P99.Median() < m.P50.Median() {
			t.Errorf("%s: %d requests, want 1000; CPU %v µs, p50 %v µs, p99 %v µs", h.name, m.Count, m.CPU, m.P50, m.P99)
		}
	}
}

// A difference of durations that include waiting for the whole run is no figure, so that it has no target.
//
// Seen to fail with the case of holds taken out of added.
func TestARateThatIsNotHeldHasNoTarget(t *testing.T) {
	held := measured{Rate: figure.Samples{5000, 4990}, P99: figure.Samples{900, 1000}}
	late := measured{Rate: figure.Samples{5000, 4000}, P99: figure.Samples{1000, 90_000}}
	for _, c := range []struct {
		nginx, ours measured
		target      bool
	}{{held, held, true}, {late, held, false}, {held, late, false}} {
		f := results{hops.Nginx: c.nginx, ourFresh: c.ours}.added(ourFresh, targetRate)
		if got := f.Target != nil; got != c.target {
			t.Errorf("nginx at %v/s, ours at %v/s: target %v, want %v", c.nginx.Rate, c.ours.Rate, got, c.target)
		}
	}
}
