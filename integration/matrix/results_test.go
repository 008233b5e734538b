package matrix

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var write = flag.Bool("write", false, "write the results of the cells that are run, and the page")

// The page and the picture are made from the results, and these have each cell that is run, none of which is red.
//
// Seen to fail with a cell taken out of results.json, with a number changed on the page, and with a fault added.
func TestThePageIsMadeFromTheResults(t *testing.T) {
	if *write {
		if err := save(nil); err != nil {
			t.Fatal(err)
		}
	}
	all, err := readResults()
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, r := range all {
		have = append(have, r.cell())
		if r.state() == red {
			t.Errorf("%s: %q; fix it, or add a limit that is documented", r.cell(), r.Problems)
		}
	}
	if want := cells(); !slices.Equal(have, want) {
		missing := slices.DeleteFunc(want, func(c string) bool { return slices.Contains(have, c) })
		t.Errorf("%s has %d cells, and %d are missing, such as %q; run: make matrix", resultsFile, len(have),
			len(missing), missing[:min(2, len(missing))])
	}
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	made, err := all.page(string(page))
	if err != nil || made != string(page) {
		t.Errorf("%s differs from the results (%v); run: go test ./integration/matrix -run ThePage -write", pageFile,
			err)
	}
	picture, err := os.ReadFile(pictureFile)
	if err != nil || all.picture() != string(picture) {
		t.Errorf("%s differs from the results (%v)", pictureFile, err)
	}
}

// Each fault has a name of its own, and a script whose words are known for a store that has all that a script needs.
func TestFaultsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range groups() {
		for _, f := range g.Faults {
			if seen[f.ID] || strings.ContainsAny(f.ID, " /") {
				t.Errorf("%q is used twice, or cannot be a part of a cell's name", f.ID)
			}
			seen[f.ID] = true
		}
	}
}
