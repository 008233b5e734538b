package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/retrysafe/retrysafe/bench/figure"
)

// writeReport prints the machine and its disk, the table, and the missed targets.
func writeReport(w io.Writer, r *run) {
	fmt.Fprintln(w, r.Machine)
	for _, p := range r.Probes {
		fmt.Fprintf(w, "disk %-6s %s: %s (%s)\n", p.Disk, p.What, p.MedianText(), p.SpreadText())
	}
	if r.quick {
		fmt.Fprintln(w, "short rounds and small data, for a quick look")
	}
	fmt.Fprintln(w)
	figure.WriteTable(w, r.Figures)
	fmt.Fprintln(w)
	for _, f := range r.Failed {
		fmt.Fprintf(w, "Goal %d was not measured: %s\n  repair that, or wait until the machine is idle, and try: "+
			"go run ./bench -only goal%[1]d\n", f.Goal, f.Error)
	}
	counts := map[figure.Verdict]int{}
	for _, f := range r.Figures {
		counts[f.Verdict()]++
	}
	fmt.Fprintf(w, "%d targets are met, %d within the spread only, %d are not.\n",
		counts[figure.Met], counts[figure.WithinSpread], counts[figure.Missed])
	writeMisses(w, r)
}

// writeMisses lists the missed targets, and how to find the cause.
func writeMisses(w io.Writer, r *run) {
	last := 0
	for _, f := range r.Figures {
		if f.Verdict() != figure.Missed {
			continue
		}
		fmt.Fprintf(w, "Goal %d is not met: %s%s: %s, target %s\n", f.Goal, f.What, on(f.Disk), f.MedianText(),
			f.TargetText())
		if f.Goal != last {
			fmt.Fprintf(w, "  why: %s\n", reason(f.Goal))
			fmt.Fprintf(w, "  where the time goes: go run ./bench -profile goal%d && go tool pprof -top %s\n", f.Goal,
				profileName(f.Goal))
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

const resultsHead = `# Results

` + "`make bench`" + ` wrote this file: one run, on the machine named below. [README.md](README.md) explains how it measures, what the
columns mean, and why some targets are missed.

` + "```\n"

// writeResults writes the report as a page of its own.
func writeResults(path string, r *run) error {
	var page bytes.Buffer
	page.WriteString(resultsHead)
	writeReport(&page, r)
	page.WriteString("```\n")
	return os.WriteFile(path, page.Bytes(), 0o644)
}

// writeJSON prints everything, including the samples.
func writeJSON(w io.Writer, r *run) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Quick bool `json:"quick"`
		*run
	}{r.quick, r})
}
