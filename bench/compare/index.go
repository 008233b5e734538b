package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/report"
)

//go:embed notes/overview.md
var overviewNotes string

// overview is docs/compare/README.md: what was compared, the totals, and the matrix of each profile.
func overview(results []result) string {
	var b strings.Builder
	b.WriteString(overviewNotes)
	b.WriteString("\n## Totals\n\n")
	t := table.NewWriter()
	t.AppendHeader(table.Row{"rules", "subject", "version", "FAIL", "WARN", "INFO", "PASS", "N/A", "retry-safe"})
	for _, r := range results {
		t.AppendRows(totalRows(r))
	}
	b.WriteString(t.RenderMarkdown() + "\n")
	for _, profile := range profiles() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", heading(profile), meaning(profile))
		b.WriteString(matrix(results, profile))
	}
	return b.String()
}

func heading(profile string) string {
	if profile == "none" {
		return "What must hold whatever was declared"
	}
	return "The IETF draft's rules"
}

func meaning(profile string) string {
	if profile == "none" {
		return "Profile `none`. A FAIL is a request that ran twice or not at all, an answer to another request or another caller, or a retry " +
			"that cannot end well."
	}
	return "Profile `ietf`. fiber and express-idempotency name the draft or Stripe as what inspired them, and Restate neither; none of the three " +
		"says that it follows it. So a FAIL here is a distance, not a broken promise."
}

// totalRows are a subject's rows of the first table.
func totalRows(r result) (rows []table.Row) {
	for _, profile := range profiles() {
		found := r.reports[profile]
		fails := fmt.Sprint(found.Count(probe.Fail))
		if n := found.Count(probe.Broken); n > 0 {
			fails += fmt.Sprintf(", %d BROKEN", n)
		}
		row := table.Row{profile, "[" + r.Column + "](" + r.Name + ".md)", r.Version, fails}
		for _, v := range []probe.Verdict{probe.Warn, probe.Info, probe.Pass, probe.NA} {
			row = append(row, fmt.Sprint(found.Count(v)))
		}
		rows = append(rows, append(row, report.Safe(found).Verdict))
	}
	return rows
}

// matrix has a row for each case and a column for each subject.
func matrix(results []result, profile string) string {
	t := table.NewWriter()
	head := table.Row{"case", "checks"}
	for _, r := range results {
		head = append(head, r.Column)
	}
	t.AppendHeader(head)
	for _, c := range cases.All() {
		row, played := table.Row{c.ID, c.Checks}, false
		for _, r := range results {
			o, ok := r.reports[profile].Find(c.ID)
			played = played || ok && o.Verdict != probe.NA
			row = append(row, cell(o.Verdict))
		}
		if played {
			t.AppendRow(row)
		}
	}
	return t.RenderMarkdown() + "\n"
}

// cell is how a verdict is shown: what is wrong catches the eye.
func cell(v probe.Verdict) string {
	switch v {
	case probe.Fail, probe.Broken:
		return "**" + string(v) + "**"
	case probe.NA, "":
		return "–"
	}
	return strings.ToLower(string(v))
}

// totals is a report in one line.
func totals(r *probe.Report) string {
	var parts []string
	for _, v := range []probe.Verdict{probe.Fail, probe.Broken, probe.Warn, probe.Info, probe.Pass, probe.NA} {
		parts = append(parts, fmt.Sprintf("%d %s", r.Count(v), v))
	}
	return strings.Join(parts, ", ")
}
