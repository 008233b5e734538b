package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
)

// telling are the cases of profile none that have a column of their own in the index.
func telling() []telltale {
	return []telltale{
		{"B02", "retry"},
		{"C02", "fifty at once"},
		{"M01", "other body"},
		{"X01", "other caller"},
		{"F07", "client gone"},
		{"F10", "crash"},
		{"F11", "restart"},
	}
}

type telltale struct{ id, head string }

// index is docs/compare/README.md: what was compared, the table of all subjects, and the verdicts of every case.
func index(chosen []subject, all results) (string, error) {
	intro, err := folders.ReadFile("subjects/overview.md")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.Write(intro)
	b.WriteString("\n## The index\n\n")
	t := table.NewWriter()
	head := table.Row{"", "system", "kind", "version", "licence", "retry-safe", "FAIL", "WARN", "INFO", "PASS", "N/A"}
	for _, c := range telling() {
		head = append(head, c.head+" ("+c.id+")")
	}
	t.AppendHeader(append(head, "FAIL in `ietf`", "recipe", "repeat with `-only`"))
	for i, s := range chosen {
		t.AppendRow(indexRow(i+1, s, all[s.Name]))
	}
	b.WriteString(t.RenderMarkdown() + "\n")
	for _, profile := range profiles() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", heading(profile), meaning(profile))
		b.WriteString(matrix(chosen, all, profile))
	}
	return b.String(), nil
}

// indexRow is a subject's row of the first table. The verdicts in it are those of profile none.
func indexRow(number int, s subject, f found) table.Row {
	none := f.Profiles["none"]
	row := table.Row{
		fmt.Sprint(number), "[" + s.Column + "](" + s.Name + ".md)", string(s.Kind), s.Version, s.Licence, none.RetrySafe,
		fails(none),
	}
	for _, v := range []probe.Verdict{probe.Warn, probe.Info, probe.Pass, probe.NA} {
		row = append(row, fmt.Sprint(none.count(v)))
	}
	for _, c := range telling() {
		row = append(row, cell(none.Verdicts[c.id]))
	}
	ietf := "–"
	if score, ok := f.Profiles["ietf"]; ok {
		ietf = fails(score)
	}
	return append(row, ietf, "["+strings.TrimPrefix(s.Folder(), "subjects/")+"](../../bench/compare/"+s.Folder()+")", "`"+s.Name+"`")
}

func fails(s score) string {
	text := fmt.Sprint(s.count(probe.Fail))
	if n := s.count(probe.Broken); n > 0 {
		text += fmt.Sprintf(", %d BROKEN", n)
	}
	return text
}

func heading(profile string) string {
	if profile == "none" {
		return "What must hold whatever was declared"
	}
	return "The IETF draft's rules"
}

func meaning(profile string) string {
	if profile == "none" {
		return "Profile `none`. A FAIL is a request that ran twice or not at all, an answer to another request or another\n" +
			"caller, or a retry that cannot end well. The numbers are those of the index: **F** is a FAIL or a case that could\n" +
			"not run, w a WARN, i an INFO, p a PASS, – not applicable."
	}
	return "Profile `ietf`. Only a few of these systems say that they follow the draft. For all others a FAIL here is a\n" +
		"distance, not a broken promise. A system whose keys are in another place than a header, or that has none, is not\n" +
		"judged by these rules."
}

// matrix has a row for each case that was played, and a column for each subject that was judged by the profile.
func matrix(chosen []subject, all results, profile string) string {
	t := table.NewWriter()
	head := table.Row{"case", "checks"}
	for i, s := range chosen {
		if _, ok := all[s.Name].Profiles[profile]; ok {
			head = append(head, fmt.Sprint(i+1))
		}
	}
	t.AppendHeader(head)
	for _, c := range cases.All() {
		row, played := table.Row{c.ID, c.Checks}, false
		for _, s := range chosen {
			if score, ok := all[s.Name].Profiles[profile]; ok {
				v := score.Verdicts[c.ID]
				played = played || v != probe.NA && v != ""
				row = append(row, letter(v))
			}
		}
		if played {
			t.AppendRow(row)
		}
	}
	return t.RenderMarkdown() + "\n"
}

// letter is how a verdict is shown in the matrix, and cell in the index: what is wrong catches the eye.
func letter(v probe.Verdict) string {
	switch v {
	case probe.Fail, probe.Broken:
		return "**F**"
	case probe.NA, "":
		return "–"
	}
	return strings.ToLower(string(v[0]))
}

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
