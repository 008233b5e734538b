// Package report writes what a run of the probe has found in the forms that people and tools read: a table for
// terminals, a page for browsers, Markdown, JSON, JUnit, SARIF, and a badge.
//
//	err := report.HTML(file, found)
//
// What a target answers is hostile until shown otherwise: every form escapes it, and shows control characters as text.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/retrysafe/retrysafe/probe"
)

// JSON writes the report as it is, with its scores: docs/probe-report.md describes each field.
func JSON(w io.Writer, r *probe.Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		*probe.Report
		Scores []Score `json:"scores"`
	}{r, scores(r)})
}

// verdicts returns all verdicts in the order in which a reader wants to see them, the worst first.
func verdicts() []probe.Verdict {
	return []probe.Verdict{probe.Fail, probe.Broken, probe.Warn, probe.Info, probe.Pass, probe.NA}
}

// explained returns the outcomes that need an explanation, the worst first.
func explained(r *probe.Report) []probe.Outcome {
	var all []probe.Outcome
	for _, o := range r.Outcomes {
		if needsWords(o) {
			all = append(all, o)
		}
	}
	badness := func(o probe.Outcome) int {
		return slices.Index(verdicts(), o.Verdict)*10 + slices.Index([]probe.Severity{
			probe.Critical, probe.Major,
			probe.Minor,
		}, o.Severity)
	}
	slices.SortStableFunc(all, func(a, b probe.Outcome) int { return badness(a) - badness(b) })
	return all
}

// needsWords reports outcomes that a reader must do something about.
func needsWords(o probe.Outcome) bool {
	return o.Verdict == probe.Fail || o.Verdict == probe.Broken || o.Verdict == probe.Warn
}

// causes returns sentences that say what the FAILs have in common, and which case to look at first.
func causes(r *probe.Report) (all []string) {
	for _, s := range r.Sections() {
		for _, c := range s.Causes {
			all = append(all, ofRoute(c.Route, fmt.Sprintf("%d of %d FAILs have one cause: %s. Begin with %s.", len(c.Cases),
				s.Count(probe.Fail), line(c.Text), line(c.Begin))))
		}
	}
	return all
}

// ofRoute returns a text behind the route that it is about, if the report has routes.
func ofRoute(route, text string) string {
	if route == "" {
		return text
	}
	return line(route) + ": " + text
}

// groupOf returns the heading of an outcome's group.
func groupOf(id string) string {
	names := map[byte]string{
		'B': "Basics", 'K': "Key syntax", 'M': "Mismatch", 'C': "Concurrency", 'F': "Failures",
		'X': "Scope and security", 'H': "HTTP hygiene",
		'T': "Expiry and policy", 'G': "gRPC",
	}
	if id == "" || names[id[0]] == "" {
		return "Other"
	}
	return names[id[0]]
}
