package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/retrysafe/retrysafe/bench/figure"
)

// writeReport prints the disk's figures, then the table, then what does not hold.
func writeReport(w io.Writer, r *run) {
	fmt.Fprintf(w, "%s, %d CPUs, %s\n", runtime.Version(), runtime.NumCPU(), platform())
	for _, p := range r.Probes {
		fmt.Fprintf(w, "disk %-6s %s: %s (%s)\n", p.Disk, p.What, p.MedianText(), p.SpreadText())
	}
	if r.quick {
		fmt.Fprintln(w, "short rounds and small data: a look, not a verdict")
	}
	fmt.Fprintln(w)
	figure.WriteTable(w, r.Figures)
	writeMisses(w, r)
}

// writeMisses says what does not hold, and how to find out why.
func writeMisses(w io.Writer, r *run) {
	var missed []figure.Figure
	for _, f := range figure.Ordered(r.Figures) {
		if !f.Holds() {
			missed = append(missed, f)
		}
	}
	fmt.Fprintln(w)
	for _, f := range r.Failed {
		fmt.Fprintf(w, "Goal %d was not measured: %s\n", f.Goal, f.Error)
	}
	if len(missed) == 0 && len(r.Failed) == 0 {
		fmt.Fprintln(w, "Everything measured holds.")
	}
	for _, f := range missed {
		fmt.Fprintf(w, "Goal %d does not hold: %s%s: %s, target %s\n", f.Goal, f.What, on(f.Disk), f.MedianText(),
			f.TargetText())
	}
	last := 0
	for _, f := range missed {
		if f.Goal != last {
			fmt.Fprintf(w, "To see where the time goes: go run ./bench -profile goal%d && go tool pprof -top %s\n",
				f.Goal, profileName(f.Goal))
		}
		last = f.Goal
	}
}

func on(disk string) string {
	if disk == "" {
		return ""
	}
	return ", disk " + disk
}

func platform() string { return strings.Join([]string{runtime.GOOS, runtime.GOARCH}, "/") }

// writeJSON prints everything, samples included.
func writeJSON(w io.Writer, r *run) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Go       string `json:"go"`
		CPUs     int    `json:"cpus"`
		Platform string `json:"platform"`
		Quick    bool   `json:"quick"`
		*run
	}{runtime.Version(), runtime.NumCPU(), platform(), r.quick, r})
}
