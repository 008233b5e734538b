package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
)

// Markdown writes the report as GitHub shows it: a table of the cases that say something, and an explanation of each
// FAIL, BROKEN and WARN.
func Markdown(w io.Writer, r *probe.Report) error {
	m := &markdown{}
	m.printf("# Probe of %s\n", md(r.Target))
	m.printf("Profile %s, %s, %d requests in %s, %s.\n", md(r.Profile), evidence(r.Evidence), r.Requests, inWords(r.Took),
		r.BeganAt.UTC().Format("2006-01-02 15:04 UTC"))
	m.summary(r)
	for _, s := range r.Sections() {
		m.cases(s)
	}
	for _, s := range r.Sections() {
		m.seen = s.Observed
		for _, o := range explained(s) {
			m.explain(o)
		}
	}
	_, err := m.out.WriteTo(w)
	return err
}

type markdown struct {
	out  bytes.Buffer
	seen probe.Observed
}

func (m *markdown) printf(format string, args ...any) { fmt.Fprintf(&m.out, format+"\n", args...) }

// summary writes the numbers of verdicts, the causes and the scores.
func (m *markdown) summary(r *probe.Report) {
	for _, s := range scores(r) {
		m.printf("- **%s: %s** (%s)", s.Name, s.Verdict, md(s.Reason))
	}
	var parts []string
	for _, v := range verdicts() {
		if n := r.Count(v); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	m.printf("- %s", strings.Join(parts, ", "))
	for _, c := range causes(r) {
		m.printf("- **%s**", md(c))
	}
	m.printf("")
}

// cases writes the table of all cases, of a route if the report has routes.
func (m *markdown) cases(r *probe.Report) {
	if r.Route != "" {
		m.printf("\n## Route %s\n", md(r.Route))
	}
	m.printf("| case | verdict | name | found |\n|---|---|---|---|")
	for _, o := range r.Outcomes {
		verdict := string(o.Verdict)
		if o.Verdict == probe.Fail || o.Verdict == probe.Broken {
			verdict = "**" + verdict + "**"
		}
		m.printf("| %s | %s | %s | %s |", md(o.ID), verdict, md(o.Name), md(found(o, 160)))
	}
}

// explain writes a section about an outcome that is not a PASS.
func (m *markdown) explain(o probe.Outcome) {
	m.printf("\n## %s: %s (%s)\n", o.Verdict, md(ofRoute(o.Route, o.ID+" "+o.Name)), o.Severity)
	m.printf("%s Source: %s.\n", md(o.Checks), md(o.Source))
	for _, f := range o.Findings {
		m.printf("- %s: %s", f.Verdict, md(f.Text))
	}
	if o.Why != "" {
		m.printf("\n**Why it matters.** %s\n\n**How to fix it.** %s", md(o.Why), md(o.Fix))
	}
	if len(o.Timeline) == 0 {
		return
	}
	m.printf("\n| | sent | key | caller | answer | after |\n|---|---|---|---|---|---|")
	for i, e := range exchangesOf(o, m.seen) {
		if i == shown {
			m.printf("| | … and %d more | | | | |", len(o.Timeline)-shown)
			break
		}
		m.printf("| %d | %s: %s | %s | %s | %s %s | %s |", e.No, md(e.Label), md(e.What), md(keyInWords(e.Key)),
			md(e.Caller), e.Result,
			md(cut(e.answerBody()+e.Error, 120)), inWords(e.Took))
	}
}

// md returns text in which nothing has a meaning to Markdown or to GitHub: no markup, HTML, links, mentions or
// references. Texts of targets are hostile input here.
func md(text string) string {
	var b strings.Builder
	letters := []rune(line(text))
	for i, c := range letters {
		inWord := i+1 < len(letters) && letters[i+1] != ' '
		switch {
		case c == '@' || c == '#':
			b.WriteString(`\` + string(c) + "<!-- -->")
		case c == '<':
			b.WriteString("&lt;")
		case c == '&':
			b.WriteString("&amp;")
		case c == '|':
			b.WriteString("&#124;")
		case strings.ContainsRune("\\`*_[]~>$", c), (c == '.' || c == ':') && inWord, i == 0 && strings.ContainsRune("+-=", c):
			b.WriteString(`\` + string(c))
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}
