package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/plots"
)

// runOf is a run that has measured these goals, on a day of its own.
func runOf(date string, goals ...int) *run {
	r := &run{Machine: machine{Date: date}, Probes: []figure.Figure{figure.New("a sync", "µs", 300)}}
	for _, g := range goals {
		r.Figures = append(r.Figures, figure.Figure{
			Goal: g, What: "of " + date, Unit: "x", Samples: figure.Samples{1, 2, 3}, Target: figure.AtLeast(3),
		})
	}
	return r
}

// Seen to fail with the goals of the newest run left in those before it, and with failures left there.
func TestARunReplacesTheGoalsThatItHasMeasured(t *testing.T) {
	first := runOf("monday", 1, 9, 16)
	first.Failed = []failure{{Goal: 10, Error: "no server"}}
	all := runs{}.with(first).with(runOf("tuesday", 9, 10))
	var got []string
	for _, f := range all.figures() {
		got = append(got, goalsText([]int{f.Goal})+" "+f.What)
	}
	if want := []string{"goals 1 of monday", "goals 9 of tuesday", "goals 10 of tuesday", "goals 16 of monday"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if failed := all.failed(); len(failed) > 0 {
		t.Errorf("goal 10 has been measured since, and is said to have failed: %v", failed)
	}
	if all = all.with(runOf("wednesday", 1, 9, 10, 16)); len(all) != 1 {
		t.Errorf("%d runs are kept, of which one has measured everything", len(all))
	}
}

// What is saved is merged with what the file has, and makes the same pages again. RESULTS.md is not written before each
// goal was measured.
//
// Seen to fail with the file overwritten by the newest run alone, with the points left out of its JSON, and with
// haveAllGoals true.
func TestPartsAreMergedInTheFile(t *testing.T) {
	root := t.TempDir()
	for _, folder := range []string{"bench", "docs/pictures"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", performancePage))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, performancePage), page, 0o600); err != nil {
		t.Fatal(err)
	}
	var others []int
	for _, g := range goals() {
		if g.number != 9 {
			others = append(others, g.number)
		}
	}
	first, second := runOf("monday", 9), runOf("tuesday", others...)
	first.Figures[0] = first.Figures[0].Plotted(plots.Postgres, "pgstore", 1, figure.Samples{611, 612, 613})
	path := filepath.Join(root, "bench", "results.json")
	for i, r := range []*run{first, second} {
		if err := saveResults(path, runs{r}); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(filepath.Join(root, resultsPage))
		if written := err == nil; written != (i == 1) {
			t.Errorf("after %d of 2 parts, RESULTS.md is written: %v", i+1, written)
		}
	}
	for name, want := range map[string]string{
		resultsPage:     goalsText(others) + ":\ntuesday",
		performancePage: "| pgstore | 612 (611–613) |",
		"docs/pictures/" + plots.Postgres + ".svg": ">monday, 0 CPUs (); a sync takes 300 µs.</text>",
	} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not have %q:\n%s", name, want, text)
		}
	}
	saved, err := readRuns(path)
	if err != nil || len(saved) != 2 {
		t.Fatalf("the file has %d runs (%v), want both", len(saved), err)
	}
	var out strings.Builder
	if err := report([]string{path}, "", &out); err != nil || !strings.Contains(out.String(), "of monday") {
		t.Errorf("reported again: %v\n%s", err, out.String())
	}
}

// A quick look at short rounds is not mistaken for results.
//
// Seen to fail with the check taken out of readRuns.
func TestQuickRunsAreNoResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quick.json")
	r := runOf("monday", 1)
	r.Quick = true
	var text bytes.Buffer
	if err := writeJSON(&text, r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readRuns(path); err == nil || !strings.Contains(err.Error(), "-quick") {
		t.Errorf("got %v, want an error that names -quick", err)
	}
}

// The figures and pictures of the pages are those of the saved samples: none of them is edited by hand.
//
// Seen to fail with a figure changed in docs/performance.md, and with a picture that was drawn by an older program.
func TestThePagesAreMadeFromTheResults(t *testing.T) {
	all, err := readRuns("results.json")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	root := ".."
	page, err := os.ReadFile(filepath.Join(root, performancePage))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := all.pages(string(page))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the saved samples (%v); run: go run ./bench -from bench/results.json "+
				"-results bench/results.json", name, err)
		}
	}
}

func TestGoalsText(t *testing.T) {
	for want, numbers := range map[string][]int{
		"goals 1 to 10, 12": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12}, "goals 1, 2, 16": {1, 2, 16},
	} {
		if got := goalsText(numbers); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
