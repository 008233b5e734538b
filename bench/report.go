package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/retrysafe/retrysafe/bench/figure"
)

// writeReport prints the machines and their disks, the table, and the missed targets.
func writeReport(w io.Writer, all runs) {
	for _, r := range all {
		if len(all) > 1 {
			fmt.Fprintf(w, "%s:\n", goalsText(r.goals()))
		}
		fmt.Fprintln(w, r.Machine)
		for _, p := range r.Probes {
			fmt.Fprintf(w, "disk %-6s %s: %s (%s)\n", p.Disk, p.What, p.MedianText(), p.SpreadText())
		}
		if r.Quick {
			fmt.Fprintln(w, "short rounds and small data, for a quick look")
		}
		fmt.Fprintln(w)
	}
	figures := all.figures()
	figure.WriteTable(w, figures)
	fmt.Fprintln(w)
	for _, f := range all.failed() {
		fmt.Fprintf(w, "Goal %d was not measured: %s\n  repair that, or wait until the machine is idle, and try: "+
			"go run ./bench -only goal%[1]d\n", f.Goal, f.Error)
	}
	counts := map[figure.Verdict]int{}
	for _, f := range figures {
		counts[f.Verdict()]++
	}
	fmt.Fprintf(w, "%d targets are met, %d within the spread only, %d are not.\n",
		counts[figure.Met], counts[figure.WithinSpread], counts[figure.Missed])
	writeMisses(w, figures)
}

// writeMisses lists the missed targets, and how to find the cause.
func writeMisses(w io.Writer, figures []figure.Figure) {
	last := 0
	for _, f := range figures {
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

` + "`go run ./bench -results bench/results.json`" + ` wrote this file, from the samples in [results.json](results.json).
[README.md](README.md) explains how it measures, what the columns mean, and why some targets are missed.

` + "```\n"

// writeJSON prints everything, including the samples, in one line.
func writeJSON(w io.Writer, r *run) error { return json.NewEncoder(w).Encode(r) }
