package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
)

// run is one run of the benchmark: what was asked for, and what was found.
type run struct {
	quick    bool
	only     []int
	profiled int    // the goal to profile; 0: none
	dir      string // for data; gone at the end
	results  string // the file to write the report to; empty: none
	log      io.Writer
	began    time.Time

	Machine machine         `json:"machine"`
	Probes  []figure.Figure `json:"probes"`
	Figures []figure.Figure `json:"figures"`
	Failed  []failure       `json:"failed,omitempty"`
}

// failure is a goal that could not be measured.
type failure struct {
	Goal  int    `json:"goal"`
	Error string `json:"error"`
}

// measure runs the goals, one after the other. A goal that cannot be measured does not stop the others.
func (r *run) measure(ctx context.Context) error {
	if err := disk.CheckStrace(ctx); err != nil {
		return err
	}
	if err := r.probe(ctx); err != nil {
		return err
	}
	for _, g := range goals() {
		if len(r.only) > 0 && !slices.Contains(r.only, g.number) {
			continue
		}
		r.try(ctx, g)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (r *run) try(ctx context.Context, g goal) {
	r.progress("goal %d: %s", g.number, g.title)
	if err := g.measure(ctx, r); err != nil {
		r.fail(g.number, err)
	}
}

// fail notes that something could not be measured, without paths of this machine, since results are published.
func (r *run) fail(goal int, err error) {
	r.progress("goal %d: %v", goal, err)
	r.Failed = append(r.Failed, failure{Goal: goal, Error: strings.ReplaceAll(err.Error(), r.dir, "DIR")})
}

// probe measures a bare sync on both disks.
func (r *run) probe(ctx context.Context) error {
	for _, d := range []disk.Disk{disk.AsIs(), disk.Slow()} {
		f, err := r.sync(ctx, d)
		if err != nil {
			return err
		}
		r.Probes = append(r.Probes, f)
	}
	return nil
}

// sync measures what a sync takes on d now.
func (r *run) sync(ctx context.Context, d disk.Disk) (figure.Figure, error) {
	f, err := callRole[figure.Figure](ctx, d, "", "", "probe", r.dir)
	if err != nil {
		return f, fmt.Errorf("probe the disk: %w", err)
	}
	f.Disk = d.Name
	return f, nil
}

func probeRole(_ context.Context, text json.RawMessage, _ func(any) error) (any, error) {
	var dir string
	if err := json.Unmarshal(text, &dir); err != nil {
		return nil, err
	}
	return disk.Probe(dir, 200)
}

// add notes a figure. One that depends on a disk gets beside it what a sync takes there, measured now, unless it has that
// already.
func (r *run) add(ctx context.Context, f figure.Figure) {
	if r.profiled != 0 {
		return // under a profile, and alone, a figure means nothing
	}
	if f.Disk != "" && f.Sync == 0 {
		sync, err := r.sync(ctx, disk.Named(f.Disk))
		if err != nil {
			r.fail(f.Goal, err)
		}
		f.Sync = sync.Median()
	}
	r.Figures = append(r.Figures, f)
	line := fmt.Sprintf("  %s%s: %s", f.What, on(f.Disk), f.MedianText())
	if spread := f.SpreadText(); spread != "" {
		line += " (" + spread + ")"
	}
	r.progress("%s %s", line, f.Verdict())
}

// progress tells whoever waits what goes on.
func (r *run) progress(format string, args ...any) {
	fmt.Fprintf(r.log, "%6.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// rounds is how many times a comparison is repeated.
func (r *run) rounds(full, quick int) int {
	if r.quick {
		return quick
	}
	return full
}

// length is how long a round lasts.
func (r *run) length(full time.Duration) time.Duration {
	if r.quick {
		return full / 3
	}
	return full
}

// disks are those to measure on. A profile is taken on the first alone.
func (r *run) disks() []disk.Disk {
	if r.profiled != 0 {
		return []disk.Disk{disk.AsIs()}
	}
	return []disk.Disk{disk.AsIs(), disk.Slow()}
}

// profile is the file for the CPU profile of a goal; empty: it is not profiled.
func (r *run) profile(goal int) string {
	if r.profiled != goal {
		return ""
	}
	path, err := filepath.Abs(profileName(goal))
	if err != nil {
		return profileName(goal)
	}
	return path
}

func profileName(goal int) string { return fmt.Sprintf("goal%d.pprof", goal) }

// cleanUp removes the data.
func (r *run) cleanUp() error { return os.RemoveAll(r.dir) }

var errNotMeasured = errors.New("not everything could be measured")
