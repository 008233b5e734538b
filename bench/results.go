package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/plots"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// runs are runs of which each has measured other goals, perhaps on another day and machine. Their file has the samples
// of each goal's last run, and all pages are made from it: RESULTS.md, the sections of docs/performance.md, its plots.
type runs []*run

// readRuns reads runs, as writeJSON writes them, one after another.
func readRuns(path string) (all runs, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		r := new(run)
		switch err := d.Decode(r); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w; it must be what -json prints", path, err)
		case r.Quick:
			return nil, fmt.Errorf("%s: a run with -quick is for a quick look, and not for results", path)
		}
		all = append(all, r)
	}
}

// goals returns the numbers of the goals that the run has measured or tried to measure.
func (r *run) goals() (numbers []int) {
	for _, f := range r.Figures {
		numbers = append(numbers, f.Goal)
	}
	for _, f := range r.Failed {
		numbers = append(numbers, f.Goal)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// with returns the runs with a new one, whose goals replace those of earlier runs.
func (all runs) with(newest *run) (merged runs) {
	replaced := newest.goals()
	for _, r := range all {
		kept := *r
		kept.Figures = slices.DeleteFunc(slices.Clone(r.Figures), func(f figure.Figure) bool {
			return slices.Contains(replaced, f.Goal)
		})
		kept.Failed = slices.DeleteFunc(slices.Clone(r.Failed), func(f failure) bool {
			return slices.Contains(replaced, f.Goal)
		})
		if len(kept.goals()) > 0 {
			merged = append(merged, &kept)
		}
	}
	if len(replaced) > 0 {
		merged = append(merged, newest)
	}
	return merged
}

// figures returns the figures of all runs by goal.
func (all runs) figures() (figures []figure.Figure) {
	for _, r := range all {
		figures = append(figures, r.Figures...)
	}
	slices.SortStableFunc(figures, func(a, b figure.Figure) int { return cmp.Compare(a.Goal, b.Goal) })
	return figures
}

// failed returns what could not be measured, by goal.
func (all runs) failed() (failed []failure) {
	for _, r := range all {
		failed = append(failed, r.Failed...)
	}
	slices.SortStableFunc(failed, func(a, b failure) int { return cmp.Compare(a.Goal, b.Goal) })
	return failed
}

// saveResults merges runs into the file of results, and writes the pages that are made from it.
func saveResults(path string, newest runs) error {
	all, err := readRuns(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, r := range newest {
		all = all.with(r)
	}
	var text bytes.Buffer
	for _, r := range all {
		if err := writeJSON(&text, r); err != nil {
			return err
		}
	}
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		return err
	}
	root := filepath.Join(filepath.Dir(path), "..")
	page, err := os.ReadFile(filepath.Join(root, performancePage))
	if err != nil {
		return fmt.Errorf("the results are saved, but not their pages: %w", err)
	}
	pages, err := all.pages(string(page))
	if err != nil {
		return err
	}
	for name, content := range pages {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// The pages, in the repository.
const (
	resultsPage     = "bench/RESULTS.md"
	performancePage = "docs/performance.md"
	pictures        = "pictures" // beside performancePage
)

// notMeasured is the section of what no run has measured.
const notMeasured = "Not drawn yet: [RESULTS.md](../bench/RESULTS.md) has the figures.\n"

// haveAllGoals reports whether each goal is in a run.
func (all runs) haveAllGoals() bool {
	return !slices.ContainsFunc(goals(), func(g goal) bool {
		return !slices.ContainsFunc(all, func(r *run) bool { return slices.Contains(r.goals(), g.number) })
	})
}

// pages returns what is made from the runs, by its place in the repository. page is docs/performance.md as it is, whose
// sections are written anew. RESULTS.md is left as it is until each goal is in a run: it would lose the others.
func (all runs) pages(page string) (map[string][]byte, error) {
	pages := map[string][]byte{}
	if all.haveAllGoals() {
		var results bytes.Buffer
		results.WriteString(resultsHead)
		writeReport(&results, all)
		results.WriteString("```\n")
		pages[resultsPage] = results.Bytes()
	}
	sections := map[string]string{"machines": all.machines(), "missed targets": all.missed()}
	for _, p := range plots.All() {
		picture, err := p.Draw(all.figures(), all.caption(p)...)
		if err != nil {
			return nil, err
		}
		section := notMeasured
		if picture != nil {
			pages[filepath.Join(filepath.Dir(performancePage), pictures, p.Name+".svg")] = picture
			section = fmt.Sprintf("![%s](%s/%s.svg)\n\n%s", p.Title, pictures, p.Name, p.Table(all.figures()))
		}
		sections[p.Name] = section
	}
	for mark, text := range sections {
		var err error
		if page, err = settings.Replace(page, mark, text); err != nil {
			return nil, fmt.Errorf("%s: %w", performancePage, err)
		}
	}
	pages[performancePage] = []byte(page)
	return pages, nil
}

// caption says what the bars of a plot are, and on which machine it was measured.
func (all runs) caption(p plots.Plot) []string {
	lines := []string{"Points are medians, and bars their spread: the confidence interval of the median, at least 90 %."}
	for _, r := range all {
		for _, f := range r.Figures {
			if slices.ContainsFunc(f.Points, func(point figure.Point) bool { return point.Plot == p.Name }) {
				return append(lines, fmt.Sprintf("%s, %d CPUs (%s); a sync takes %s µs.", r.Machine.Date, r.Machine.CPUs,
					r.Machine.CPU, figure.Short(r.Probes[0].Samples.Median())))
			}
		}
	}
	return lines
}

// machines lists the runs with their machines.
func (all runs) machines() string {
	if len(all) == 0 {
		return notMeasured
	}
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "- %s: %s", goalsText(r.goals()), r.Machine)
		for _, p := range r.Probes {
			fmt.Fprintf(&b, "; a sync, disk %s: %s", p.Disk, p.MedianText())
		}
		b.WriteString("\n")
	}
	return b.String()
}

// missed lists the missed targets, by goal.
func (all runs) missed() string {
	if len(all) == 0 {
		return notMeasured
	}
	var b strings.Builder
	last := 0
	for _, f := range all.figures() {
		if f.Verdict() != figure.Missed {
			continue
		}
		if f.Goal != last {
			fmt.Fprintf(&b, "- **Goal %d**: %s.\n", f.Goal, reason(f.Goal))
		}
		last = f.Goal
		fmt.Fprintf(&b, "  - %s%s: %s, target %s\n", f.What, on(f.Disk), f.MedianText(), f.TargetText())
	}
	if b.Len() == 0 {
		return "None.\n"
	}
	return b.String()
}

// goalsText names goals: "goals 1 to 10, 12".
func goalsText(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		switch end - i {
		case 0:
			parts = append(parts, fmt.Sprint(numbers[i]))
		case 1:
			parts = append(parts, fmt.Sprint(numbers[i]), fmt.Sprint(numbers[end]))
		default:
			parts = append(parts, fmt.Sprintf("%d to %d", numbers[i], numbers[end]))
		}
		i = end + 1
	}
	return "goals " + strings.Join(parts, ", ")
}
