// Package figure holds what the benchmark measures: samples, their median and spread, and whether a target is met.
package figure

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

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
	Samples []float64 `json:"samples"`
	Target  *Target   `json:"target,omitempty"`
	// Aside explains the figure: absolute values, counts.
	Aside string `json:"aside,omitempty"`
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
	case !f.Target.metBy(f.Median()):
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

// Median returns the median of the samples, or NaN if there are none.
func (f Figure) Median() float64 { return Median(f.Samples) }

// Median returns the middle value, or the mean of the two middle values; NaN if there are none.
func Median(samples []float64) float64 {
	n := len(samples)
	if n == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
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
func (f Figure) MedianText() string { return f.text(f.Median()) + f.suffix() }

// SpreadText formats the smallest and the largest sample; it is empty for a single sample.
func (f Figure) SpreadText() string {
	if len(f.Samples) < 2 {
		return ""
	}
	return f.text(slices.Min(f.Samples)) + "–" + f.text(slices.Max(f.Samples))
}

// SyncText formats the duration of a sync; it is empty if no disk is involved.
func (f Figure) SyncText() string {
	if f.Sync == 0 {
		return ""
	}
	return Short(f.Sync) + " µs"
}

func (f Figure) text(v float64) string {
	if f.Unit == "x" {
		return fmt.Sprintf("%.2f", v)
	}
	return Short(v)
}

func (f Figure) suffix() string {
	if f.Unit == "x" || f.Unit == "" {
		return ""
	}
	return " " + f.Unit
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

// Percentile returns the value below which the given share (0 to 1) of the samples lies. It sorts samples.
func Percentile[T int64 | float64](samples []T, share float64) T {
	if len(samples) == 0 {
		return 0
	}
	slices.Sort(samples)
	i := int(math.Ceil(share*float64(len(samples)))) - 1
	return samples[min(max(i, 0), len(samples)-1)]
}
