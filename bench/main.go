// Command bench compares Retrysafe with peers and limits, and prints each goal with its target and whether it is met.
// See README.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(args []string) (err error) {
	r := &run{log: os.Stderr, began: time.Now(), Machine: thisMachine()}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.Int64Var(&r.records, "records", latencyRecords, "of goal12: how many records to fill in, if they fit")
	flags.BoolVar(&r.Quick, "quick", false, "short rounds and small data, for a quick look")
	results := flags.String("results", "", "keep the samples in this file, bench/results.json, where each goal that was "+
		"measured replaces its last run, and write RESULTS.md, docs/performance.md and its plots from it")
	from := flags.String("from", "", "measure nothing, and take the runs in these files, which -json has printed: a.json,b.json")
	asJSON := flags.Bool("json", false, "print JSON with every sample instead of a table")
	only := flags.String("only", "", "measure these goals only: goal1,goal3")
	profile := flags.String("profile", "",
		"run this goal only, on this disk, and write our side's CPU profile to goalN.pprof")
	dir := flags.String("dir", os.TempDir(), "folder for the data; its disk is measured")
	role := flags.String("role", "", "internal: run this role")
	_ = flags.Parse(args)
	if *role != "" {
		return playRole(*role, flags.Arg(0))
	}
	if *results != "" && (r.Quick || *profile != "") {
		return errors.New("-results needs runs at full length: leave out -quick and -profile")
	}
	if *from != "" {
		return report(strings.Split(*from, ","), *results, os.Stdout)
	}
	if r.only, err = parseGoals(cmp.Or(*profile, *only)); err != nil {
		return err
	}
	if *profile != "" {
		r.profiled = r.only[0]
	}
	if r.dir, err = os.MkdirTemp(*dir, "retrysafe-bench"); err != nil {
		return err
	}
	return execute(r, *asJSON, *results, os.Stdout)
}

// parseGoals parses "goal1,goal3" or "1,3".
func parseGoals(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var numbers []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(part), "goal"))
		if err != nil || !slices.ContainsFunc(goals(), func(g goal) bool { return g.number == n }) {
			return nil, fmt.Errorf("no goal %q: there are goal1 to goal20, without goal11 and goal13", part)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// report merges saved runs, of which a later one replaces the goals of an earlier one, and prints them.
func report(paths []string, results string, w io.Writer) error {
	var all runs
	for _, path := range paths {
		saved, err := readRuns(path)
		if err != nil {
			return err
		}
		for _, r := range saved {
			all = all.with(r)
		}
	}
	writeReport(w, all)
	if results == "" {
		return nil
	}
	return saveResults(results, all)
}

// execute measures and reports. If something cannot be measured, it still reports the rest.
func execute(r *run, asJSON bool, results string, w io.Writer) (err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	defer func() { err = cmp.Or(err, os.RemoveAll(r.dir)) }()
	if err := r.measure(ctx); err != nil {
		return err
	}
	switch {
	case r.profiled != 0:
		fmt.Fprintf(w, "wrote %s; read it with: go tool pprof -top %[1]s\n", profileName(r.profiled))
	case asJSON:
		err = writeJSON(w, r)
	default:
		writeReport(w, runs{r})
	}
	if err == nil && results != "" {
		err = saveResults(results, runs{r})
	}
	if err == nil && len(r.Failed) > 0 {
		err = errNotMeasured
	}
	return err
}
