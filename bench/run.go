package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
)

// run is one run of the benchmark: its options and its results.
type run struct {
	only          []int
	profiled      int    // the goal to profile; 0 for none
	records       int64  // to fill in for goal 12, if they fit
	dir           string // folder for data, removed at the end
	log           io.Writer
	began         time.Time
	goal          int    // that is being measured
	restateServer string // the server's binary, once it is installed

	Quick   bool            `json:"quick,omitempty"`
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
	for _, d := range []disk.Disk{disk.AsIs(), disk.Slow()} {
		f, err := r.sync(ctx, d)
		if err != nil {
			return err
		}
		r.Probes = append(r.Probes, f)
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
	r.goal = g.number
	r.progress("goal %d: %s", g.number, g.title)
	if err := g.measure(ctx, r); err != nil {
		r.fail(err)
	}
}

// fail records that something could not be measured, without paths of this machine, because results are published.
func (r *run) fail(err error) {
	r.progress("goal %d: %v", r.goal, err)
	r.Failed = append(r.Failed, failure{Goal: r.goal, Error: strings.ReplaceAll(err.Error(), r.dir, "DIR")})
}

// sync measures the current duration of a sync on d.
func (r *run) sync(ctx context.Context, d disk.Disk) (figure.Figure, error) {
	f, err := call[figure.Figure](ctx, place{disk: d}, probe{Dir: r.dir})
	if err != nil {
		return f, fmt.Errorf("probe the disk: %w", err)
	}
	return f.On(d.Name), nil
}

// probe measures a bare sync.
type probe struct{ Dir string }

func (in probe) play(context.Context, func(any) error) (any, error) { return disk.Probe(in.Dir, 200) }

// add records a figure. A figure that depends on a disk also gets the current duration of a sync there, unless it is
// already set.
func (r *run) add(ctx context.Context, f figure.Figure) {
	if r.profiled != 0 {
		return // with a profile, and with one side only, a figure means nothing
	}
	f.Goal = r.goal
	if f.Disk != "" && f.Sync == 0 {
		sync, err := r.sync(ctx, disk.Named(f.Disk))
		if err != nil {
			r.fail(err)
		}
		f.Sync = sync.Samples.Median()
	}
	r.Figures = append(r.Figures, f)
	line := fmt.Sprintf("  %s%s: %s", f.What, on(f.Disk), f.MedianText())
	if spread := f.SpreadText(); spread != "" {
		line += " (" + spread + ")"
	}
	r.progress("%s %s", line, f.Verdict())
}

// addHere records a figure that depends on the disk as it is.
func (r *run) addHere(ctx context.Context, f figure.Figure) { r.add(ctx, f.On(disk.AsIs().Name)) }

// progress logs the progress.
func (r *run) progress(format string, args ...any) {
	fmt.Fprintf(r.log, "%6.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// rounds returns the number of repetitions of a comparison.
func (r *run) rounds(full, quick int) int {
	if r.Quick {
		return quick
	}
	return full
}

// length returns the duration of a round.
func (r *run) length(full time.Duration) time.Duration {
	if r.Quick {
		return full / 3
	}
	return full
}

// race returns a race of so many rounds.
func (r *run) race(full, quick int, round time.Duration) race {
	return race{Rounds: r.rounds(full, quick), Round: r.length(round)}
}

// theirs returns the number of callers of the other side, which is left out of a profile.
func (r *run) theirs(callers int) int {
	if r.profiled != 0 {
		return 0
	}
	return callers
}

// disks returns the disks to measure on. A profile uses only the first.
func (r *run) disks() []disk.Disk {
	if r.profiled != 0 {
		return []disk.Disk{disk.AsIs()}
	}
	return []disk.Disk{disk.AsIs(), disk.Slow()}
}

// here is the place of a measured role: the disk as it is, with a profile if the goal is profiled.
func (r *run) here() place { return place{disk: disk.AsIs(), profile: r.profile()} }

// profile returns the file for the CPU profile of the goal, or "" if it is not profiled.
func (r *run) profile() string {
	if r.profiled == 0 {
		return ""
	}
	path, err := filepath.Abs(profileName(r.profiled))
	if err != nil {
		return profileName(r.profiled)
	}
	return path
}

func profileName(goal int) string { return fmt.Sprintf("goal%d.pprof", goal) }

var errNotMeasured = errors.New("not everything could be measured")
