// Package figure holds what the benchmark measures: samples, their median and spread, and whether a target is met.
package figure

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchmath"
)

// Samples hold one value per repetition. They print as their median.
type Samples []float64

// Median returns the middle value, or the mean of the two middle values; NaN if there are none.
func (s Samples) Median() float64 { return s.Quantile(0.5) }

// Quantile returns the value below which the given share (0 to 1) of the samples lies; NaN if there are none.
func (s Samples) Quantile(share float64) float64 { return stats.Sample{Xs: s}.Quantile(share) }

// String formats the median.
func (s Samples) String() string { return Short(s.Median()) }

// Over divides repetition by repetition, because a disturbance of one repetition affects both sides.
func (s Samples) Over(other Samples) Samples {
	var ratios Samples
	for i := range min(len(s), len(other)) {
		ratios = append(ratios, s[i]/other[i])
	}
	return ratios
}

// Times multiplies each value.
func (s Samples) Times(factor float64) Samples {
	product := slices.Clone(s)
	for i := range product {
		product[i] *= factor
	}
	return product
}

// Medians returns the medians of n parts of equal length, in order: neighbours among thousands of samples disturb each
// other, so that all of them together would have a spread that is too narrow.
func (s Samples) Medians(n int) (medians Samples) {
	for i := range n {
		if part := s[i*len(s)/n : (i+1)*len(s)/n]; len(part) > 0 {
			medians = append(medians, part.Median())
		}
	}
	return medians
}

// confidence is the least probability with which the spread contains the median of all possible repetitions. Five
// repetitions are enough for it, and their spread is from the smallest to the largest.
const confidence = 0.9

// Spread returns the confidence interval of the median, which assumes nothing about how samples are distributed. With
// too few samples for it, they are the smallest and the largest one.
func (s Samples) Spread() (lo, hi float64) {
	sample := benchmath.NewSample(slices.Clone(s), &benchmath.DefaultThresholds)
	all := benchmath.AssumeNothing.Summary(sample, confidence)
	if len(all.Warnings) > 0 {
		return slices.Min(s), slices.Max(s)
	}
	return all.Lo, all.Hi
}

// Figure is a measured value with its target.
type Figure struct {
	// Goal is the number in the list of goals.
	Goal int `json:"goal"`
	// What describes the value.
	What string `json:"what"`
	// Disk is the disk of the measurement; empty if none is involved.
	Disk string `json:"disk,omitempty"`
	// Sync is the duration of a sync on that disk at the time of the measurement, in microseconds.
	Sync float64 `json:"sync_us,omitempty"`
	// Unit of the samples; "x" is a ratio.
	Unit string `json:"unit"`
	// Samples hold one value per repetition, or a single exact value.
	Samples Samples `json:"samples"`
	Target  *Target `json:"target,omitempty"`
	// Aside explains the figure: absolute values, counts.
	Aside string `json:"aside,omitempty"`
	// Points are what plots show of the measurement.
	Points []Point `json:"points,omitempty"`
}

// Point is a value in a plot: one of a series, at a place on the horizontal axis.
type Point struct {
	// Plot is the name of the plot: see package plots.
	Plot string `json:"plot"`
	// Series is the name in the legend.
	Series string `json:"series"`
	// X is the number of callers or records, or a percentile.
	X float64 `json:"x"`
	// Samples hold one value per repetition.
	Samples Samples `json:"samples"`
}

// New returns a figure without a target.
func New(what, unit string, samples ...float64) Figure {
	return Figure{What: what, Unit: unit, Samples: samples}
}

// Ratio compares ours with theirs, repetition by repetition. Its Aside begins with both medians, which are in unit.
func Ratio(what string, ours, theirs Samples, unit string) Figure {
	return New(what, "x", ours.Over(theirs)...).Note("%v ÷ %v %s", ours, theirs, unit)
}

// On returns the figure as one that depends on a disk.
func (f Figure) On(disk string) Figure {
	f.Disk = disk
	return f
}

// Want returns the figure with a target, which may be nil.
func (f Figure) Want(t *Target) Figure {
	f.Target = t
	return f
}

// Note returns the figure with more to explain it.
func (f Figure) Note(format string, args ...any) Figure {
	if f.Aside != "" {
		f.Aside += "; "
	}
	f.Aside += fmt.Sprintf(format, args...)
	return f
}

// Plotted returns the figure with a point for a plot. Without samples there is none: the side was left out.
func (f Figure) Plotted(plot, series string, x float64, s Samples) Figure {
	if len(s) > 0 {
		f.Points = append(slices.Clone(f.Points), Point{Plot: plot, Series: series, X: x, Samples: s})
	}
	return f
}

// Target is a lower limit of the median, or with AtMost an upper limit.
type Target struct {
	Value  float64 `json:"value"`
	AtMost bool    `json:"at_most"`
}

// AtLeast returns a lower limit for the median.
func AtLeast(v float64) *Target { return &Target{Value: v} }

// AtMost returns an upper limit for the median.
func AtMost(v float64) *Target { return &Target{Value: v, AtMost: true} }

// Verdict is the result of comparing a figure with its target.
type Verdict string

// The verdicts. If the median meets the target but one repetition misses it, the result may be luck and does not
// count as met.
const (
	NoTarget     Verdict = ""
	Met          Verdict = "yes" // each repetition meets the target
	WithinSpread Verdict = "within the spread"
	Missed       Verdict = "NO"
)

// Verdict compares the median and each repetition with the target.
func (f Figure) Verdict() Verdict {
	switch {
	case f.Target == nil:
		return NoTarget
	case !f.Target.metBy(f.Samples.Median()):
		return Missed
	case slices.ContainsFunc(f.Samples, func(v float64) bool { return !f.Target.metBy(v) }):
		return WithinSpread
	}
	return Met
}

func (t *Target) metBy(v float64) bool {
	if t.AtMost {
		return v <= t.Value
	}
	return v >= t.Value
}

// TargetText formats the target for the table.
func (f Figure) TargetText() string {
	switch {
	case f.Target == nil:
		return "-"
	case f.Target.AtMost:
		return "≤ " + f.text(f.Target.Value)
	}
	return "≥ " + f.text(f.Target.Value)
}

// MedianText formats the median with its unit.
func (f Figure) MedianText() string {
	if f.Unit == "x" || f.Unit == "" {
		return f.text(f.Samples.Median())
	}
	return f.text(f.Samples.Median()) + " " + f.Unit
}

// SpreadText formats the spread; it is empty for a single sample.
func (f Figure) SpreadText() string {
	if len(f.Samples) < 2 {
		return ""
	}
	lo, hi := f.Samples.Spread()
	return f.text(lo) + "–" + f.text(hi)
}

// String formats the median and, if there is more than one sample, the spread.
func (p Point) String() string {
	f := Figure{Samples: p.Samples}
	if spread := f.SpreadText(); spread != "" {
		return f.MedianText() + " (" + spread + ")"
	}
	return f.MedianText()
}

func (f Figure) text(v float64) string {
	if f.Unit == "x" {
		return fmt.Sprintf("%.2f", v)
	}
	return Short(v)
}

// Short formats a number with three significant digits, and k for thousands.
func Short(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "?"
	case a >= 99_950:
		return fmt.Sprintf("%.0fk", v/1000)
	case a >= 9_995:
		return fmt.Sprintf("%.1fk", v/1000)
	case a >= 99.95 || a == math.Trunc(a):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
