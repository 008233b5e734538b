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

// run is one run of the benchmark: its options and its results.
type run struct {
	quick    bool
	only     []int
	profiled int    // the goal to profile; 0 for none
	records  int64  // to fill in for goal 12, if they fit
	dir      string // folder for data, removed at the end
	results  string // the file for the report; empty for none
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

// measure runs the goals in sequence. If a goal cannot be measured, it continues with the next.
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

// fail records that something could not be measured, without paths of this machine, because results are published.
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

// sync measures the current duration of a sync on d.
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

// add records a figure. A figure that depends on a disk also gets the current duration of a sync there, unless it is
// already set.
func (r *run) add(ctx context.Context, f figure.Figure) {
	if r.profiled != 0 {
		return // with a profile, and with one side only, a figure means nothing
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

// progress logs the progress.
func (r *run) progress(format string, args ...any) {
	fmt.Fprintf(r.log, "%6.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// rounds returns the number of repetitions of a comparison.
func (r *run) rounds(full, quick int) int {
	if r.quick {
		return quick
	}
	return full
}

// length returns the duration of a round.
func (r *run) length(full time.Duration) time.Duration {
	if r.quick {
		return full / 3
	}
	return full
}

// disks returns the disks to measure on. A profile uses only the first.
func (r *run) disks() []disk.Disk {
	if r.profiled != 0 {
		return []disk.Disk{disk.AsIs()}
	}
	return []disk.Disk{disk.AsIs(), disk.Slow()}
}

// profile returns the file for the CPU profile of a goal, or "" if it is not profiled.
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
