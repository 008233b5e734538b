package judges

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	pageFile     = "../../docs/proof-independent-suites.md"
	sectionBegin = "<!-- suites: written by make judges -->\n"
	sectionEnd   = "<!-- end of suites -->\n"
)

// The page shows results.json. The results are of the versions that are pinned, of all suites and all ways, and each red
// has its reason.
//
// Seen to fail with a count changed on the page, with another version in structured/package.json, with a suite taken
// out of results.json, and with a reason that was changed in grpcInterop.
func TestThePageShowsTheResults(t *testing.T) {
	all := readResults(t)
	page := readPage(t)
	if want := withSection(t, page, all); page != want {
		t.Errorf("%s does not show %s: run make judges", pageFile, resultsFile)
	}
	for i, s := range allSuites() {
		if i >= len(all) || all[i].ID != s.id {
			t.Fatalf("%s lacks %s: run make judges", resultsFile, s.id)
		}
		if version := s.version(t); all[i].Version != version {
			t.Errorf("%s: the results are of %s, and %s is pinned: run make judges", s.id, all[i].Version, version)
		}
		if len(all[i].Ways) != len(s.ways) {
			t.Fatalf("%s: %d ways have results, of %d", s.id, len(all[i].Ways), len(s.ways))
		}
		for j, w := range all[i].Ways {
			if w.Name != s.ways[j].name || w.Failed != w.Alike+len(failures(w)) && (j > 0 || !s.compared) {
				t.Errorf("%s: %s: %d failed, %d of them directly, too, and %d are explained", s.id, w.Name, w.Failed, w.Alike,
					len(failures(w)))
			}
			for _, r := range w.Reds {
				if because, ok := s.because(w.Name, r.Case); !ok || because != r.Because {
					t.Errorf("%s: %s: %s: the reason is %q, and was %q", s.id, w.Name, r.Case, because, r.Because)
				}
			}
		}
	}
	if adcp := packageVersion("../clients/adcp")(t); !strings.Contains(page, "`"+adcp+"`") {
		t.Errorf("%s does not name %s", pageFile, adcp)
	}
}

// failures are the reds of a way that failed, without those that only passed.
func failures(w wayResult) (all []red) {
	for _, r := range w.Reds {
		if r.Said != "" {
			all = append(all, r)
		}
	}
	return all
}

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// withSection returns the page with the section that shows the results.
func withSection(t *testing.T, page string, all []result) string {
	t.Helper()
	before, rest, begins := strings.Cut(page, sectionBegin)
	_, after, ends := strings.Cut(rest, sectionEnd)
	if !begins || !ends {
		t.Fatalf("%s has no section %q", pageFile, sectionBegin)
	}
	return before + sectionBegin + section(all) + sectionEnd + after
}

// section shows the results.
func section(all []result) string {
	var b strings.Builder
	b.WriteString("\n| suite, and how it reaches us | passed | failed without us, too | differs |\n|---|---|---|---|\n")
	suites := allSuites()
	for i, r := range all {
		s := suites[i]
		fmt.Fprintf(&b, "| [%s](%s), %s, %s | | | |\n", s.name, s.source, s.license, r.Measured)
		for j, w := range r.Ways {
			alike := fmt.Sprint(w.Alike)
			if j == 0 && s.compared {
				alike = fmt.Sprint(w.Failed)
			}
			fmt.Fprintf(&b, "| – %s | %d | %s | %d |\n", w.Name, w.Passed, alike, len(w.Reds))
		}
	}
	b.WriteString("\nVersions:\n\n")
	for i, r := range all {
		fmt.Fprintf(&b, "- %s: `%s`\n", suites[i].name, r.Version)
	}
	b.WriteString("\n## Each difference\n\n")
	for i, r := range all {
		for _, w := range r.Ways {
			for _, g := range groups(w.Reds) {
				b.WriteString(wrap(fmt.Sprintf("- **%s; %s.** %s: %s", suites[i].name, w.Name, names(g), g[0].Because)))
			}
		}
	}
	b.WriteString("\n")
	return b.String()
}

// groups returns the reds that have the same reason, in their order.
func groups(reds []red) (all [][]red) {
	at := map[string]int{}
	for _, r := range reds {
		i, ok := at[r.Because]
		if !ok {
			i, at[r.Because] = len(all), len(all)
			all = append(all, nil)
		}
		all[i] = append(all[i], r)
	}
	return all
}

// names names the cases, or some of them if they are many.
func names(reds []red) string {
	const most = 4
	if len(reds) > most {
		return fmt.Sprintf("%d cases, such as `%s`", len(reds), reds[0].Case)
	}
	var all []string
	for _, r := range reds {
		all = append(all, "`"+r.Case+"`")
	}
	return strings.Join(all, ", ")
}

// wrap breaks an item of a list into lines of at most 120 columns.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Split(text, " ") {
		switch n := len([]rune(word)); {
		case i == 0:
			column = n
		case column+1+n > 120:
			b.WriteString("\n  ")
			column = n + 2
		default:
			b.WriteString(" ")
			column += n + 1
		}
		b.WriteString(word)
	}
	return b.String() + "\n"
}
