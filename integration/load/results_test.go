//go:build linux

package load

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var write = flag.Bool("load.write", false, "write results.json, the page and the pictures, if the run succeeds")

const (
	resultsFile  = "results.json"
	pageFile     = "../../docs/proof-load.md"
	sectionBegin = "<!-- load: written by go test ./integration/load -load.write -->\n"
	sectionEnd   = "<!-- end of load -->\n"
)

// results are those of a run of TestSoakMixedTraffic.
type results struct {
	Seconds, Waiters int
	Runs             []storeRun
}

// storeRun is the part of a run that had a store.
type storeRun struct {
	Store         string
	Before, After sample
	Counts        map[string]int64
	Samples       []sample
}

// counts are the names of Counts, and what the page says of each.
func counts(c *Counts) []struct {
	name string
	n    interface{ Load() int64 }
} {
	return []struct {
		name string
		n    interface{ Load() int64 }
	}{
		{"keys", &c.Keys},
		{"answers, each the one that the API gave to its key", &c.Answers},
		{"clients that left in their request", &c.LeftInRequest},
		{"clients that left in their answer", &c.LeftInAnswer},
		{"bodies of 1 MiB, sent twice", &c.Large},
		{"hot keys", &c.HotKeys},
		{"answers to waiters for hot keys", &c.HotAnswers},
		{"refusals with 409 or 503, and another try", &c.Refused},
		{"requests whose outcome was unknown after a kill", &c.Unknown},
		{"processes killed", &c.Kills},
		{"reloads of both processes", &c.Reloads},
		{"slowloris connections, cut off", &c.Slowloris},
		{"stalled uploads, cut off", &c.Stalled},
		{"giant headers, cut off", &c.GiantHeaders},
		{"the longest until a slow client was cut off, ms", &c.SlowestCut},
		{"the most bytes of a giant header that its client could send", &c.MostHeaderBytes},
	}
}

func (r *storeRun) count(c *Counts) {
	r.Counts = map[string]int64{}
	for _, one := range counts(c) {
		r.Counts[one.name] = one.n.Load()
	}
}

// save writes the results, and what shows them.
func (r results) save() error {
	names := []string{}
	for _, s := range stores() {
		names = append(names, s.name)
	}
	slices.SortFunc(r.Runs, func(a, b storeRun) int { return slices.Index(names, a.Store) - slices.Index(names, b.Store) })
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	text = []byte(strings.ReplaceAll(string(text), `{"At"`, "\n"+`{"At"`) + "\n")
	if err := os.WriteFile(resultsFile, text, 0o600); err != nil {
		return err
	}
	page, err := os.ReadFile(pageFile)
	if err != nil {
		return err
	}
	made, err := r.page(string(page))
	if err != nil {
		return err
	}
	for _, s := range r.Runs {
		if err := os.WriteFile(s.pictureFile(), []byte(s.picture()), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(pageFile, []byte(made), 0o600)
}

// page returns the page with the section that shows the results.
func (r results) page(page string) (string, error) {
	before, rest, begins := strings.Cut(page, sectionBegin)
	_, after, ends := strings.Cut(rest, sectionEnd)
	if !begins || !ends {
		return "", fmt.Errorf("%s has no section %q", pageFile, sectionBegin)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nThis run took %d seconds, with %d waiters for each hot key.\n", r.Seconds, r.Waiters)
	for _, s := range r.Runs {
		fmt.Fprintf(&b, "\n### %s\n\n![Memory, goroutines, descriptors, records and the table over time, with %[1]s]"+
			"(%s)\n\n", s.Store, strings.TrimPrefix(s.pictureFile(), "../../docs/"))
		b.WriteString("| | before | median of the second third | of the last third | most | after |\n" +
			"|---|---:|---:|---:|---:|---:|\n")
		for _, q := range quantities() {
			m := q.thirds(s.Samples)
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d |\n", q.name, q.of(s.Before)/q.unit, m[1]/q.unit, m[2]/q.unit,
				q.most(s.Samples)/q.unit, q.of(s.After)/q.unit)
		}
		b.WriteString("\n| traffic | |\n|---|---:|\n")
		for _, one := range counts(new(Counts)) {
			fmt.Fprintf(&b, "| %s | %d |\n", one.name, s.Counts[one.name])
		}
	}
	return before + sectionBegin + b.String() + "\n" + sectionEnd + after, nil
}

func (q quantity) most(all []sample) (most int64) {
	for _, s := range all {
		most = max(most, q.of(s))
	}
	return most
}

func (s storeRun) pictureFile() string {
	return "../../docs/pictures/load-" + strings.ToLower(s.Store) + ".svg"
}

// picture draws a line for each quantity, one below the other, from zero to the most.
func (s storeRun) picture() string {
	const width, height, left, step = 720, 70, 110, 100
	var b strings.Builder
	all := quantities()
	end := s.Samples[len(s.Samples)-1].At
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">
<title>%s: what the process and the store take during %.0f seconds of traffic</title>
<style>path { fill: none }
.p { fill: #fff } text { fill: #1f2328 } .g { stroke: #d1d9e0 } .l { stroke: #0969da }
@media (prefers-color-scheme: dark) {
.p { fill: #0d1117 } text { fill: #e6edf3 } .g { stroke: #3d444d } .l { stroke: #58a6ff }
}
</style>
<rect class="p" width="100%%" height="100%%"/>
`, left+width+20, len(all)*step+40, s.Store, end)
	for i, q := range all {
		top := i*step + 15
		most := max(q.most(s.Samples), 1)
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", left-8, top+height/2, q.name)
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%d</text>\n", left-8, top+8, most/q.unit)
		fmt.Fprintf(&b, "<path class=\"g\" d=\"M%d %dh%dM%[1]d %[4]dh%[3]d\"/>\n", left, top, width, top+height)
		b.WriteString(`<path class="l" d="`)
		for j, p := range s.Samples {
			x, y := left+p.At/end*width, float64(top+height)-float64(q.of(p))/float64(most)*height
			fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(j, 1)], x, y)
		}
		b.WriteString("\"/>\n")
	}
	bottom := len(all)*step + 20
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\">0 s</text>\n", left, bottom)
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.0f s</text>\n</svg>\n", left+width, bottom, end)
	return b.String()
}

// The page and the pictures are made from the results, which are of a run that was long enough to be judged, and in
// which nothing grew.
//
// Seen to fail with a number changed on the page, with a picture changed, and with four times as many records in the
// last third of results.json.
func TestThePageShowsTheResults(t *testing.T) {
	text, err := os.ReadFile(resultsFile)
	if err != nil {
		t.Fatal(err)
	}
	var r results
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if *write {
		if err := r.save(); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	if made, err := r.page(string(page)); err != nil || made != string(page) {
		t.Errorf("%s does not show %s (%v)", pageFile, resultsFile, err)
	}
	if float64(r.Seconds) < judged.Seconds() || len(r.Runs) != len(stores()) {
		t.Errorf("%s is of a run of %d seconds and %d stores", resultsFile, r.Seconds, len(r.Runs))
	}
	for _, s := range r.Runs {
		if picture, err := os.ReadFile(s.pictureFile()); err != nil || string(picture) != s.picture() {
			t.Errorf("%s does not show %s (%v)", s.pictureFile(), resultsFile, err)
		}
		for _, fault := range flat(s.Samples) {
			t.Errorf("%s: %s", s.Store, fault)
		}
	}
}
