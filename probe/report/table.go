package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
)

// TableOptions of Table. TableOptions{} works.
type TableOptions struct {
	// Colour colours verdicts with the escape sequences of terminals. Default: no colour.
	Colour bool
}

// width is how many columns a table takes at most.
const width = 100

// Table writes the report for a terminal: a line for each case, then what must be known of each FAIL, BROKEN and WARN.
func Table(w io.Writer, r *probe.Report, o TableOptions) error {
	t := &table{colour: o.Colour}
	t.printf("%s", cut("Probe of "+line(r.Target), width))
	t.printf("%s", cut(fmt.Sprintf("profile %s, %s, %d requests in %s, %s", line(r.Profile), evidence(r.Evidence),
		r.Requests, inWords(r.Took),
		r.BeganAt.UTC().Format("2006-01-02 15:04 UTC")), width))
	t.causes(r)
	for _, s := range r.Sections() {
		t.rows(s, o)
	}
	for _, s := range r.Sections() {
		t.seen = s.Observed
		for _, c := range explained(s) {
			t.explain(c)
		}
	}
	t.printf("")
	t.summary(r)
	_, err := t.out.WriteTo(w)
	return err
}

// rows prints the cases of a route, or of an API with one request.
func (t *table) rows(r *probe.Report, o TableOptions) {
	if r.Route != "" {
		t.printf("\n%s", t.paint(bold, cut("Route "+line(r.Route), width)))
	}
	group := ""
	for _, c := range r.Outcomes {
		if g := groupOf(c.ID); g != group {
			group = g
			t.printf("\n%s", t.paint(bold, g))
		}
		t.printf("%s", Row(c, o))
	}
}

// Row returns the line that Table has for a case, without an end of line.
func Row(c probe.Outcome, o TableOptions) string {
	t := &table{colour: o.Colour}
	head := fmt.Sprintf("  %-4s", line(c.ID)) + t.paint(colourOf(c.Verdict),
		pad(string(c.Verdict), 7)) + pad(cut(line(c.Name), 24), 26)
	return strings.TrimRight(head+found(c, width-39), " ")
}

// found returns the findings of a case in one line of at most that many columns.
func found(c probe.Outcome, most int) string {
	if len(c.Findings) == 0 {
		return ""
	}
	text := line(c.Findings[0].Text)
	if more := len(c.Findings) - 1; more > 0 {
		note := fmt.Sprintf(" (+%d more)", more)
		return cut(text, most-len(note)) + note
	}
	return cut(text, most)
}

// evidence names an evidence level.
func evidence(e probe.Evidence) string {
	switch e {
	case probe.ByCount:
		return "effects counted"
	case probe.ByArrival:
		return "effects received"
	}
	return "effects shown by identities"
}

type table struct {
	out    bytes.Buffer
	colour bool
	seen   probe.Observed
}

func (t *table) printf(format string, args ...any) { fmt.Fprintf(&t.out, format+"\n", args...) }

// field prints a text behind its name, in as many lines as it takes.
func (t *table) field(name, text string) {
	for i, l := range wrap(line(text), width-11) {
		if i > 0 {
			name = ""
		}
		t.printf("  %s %s", t.paint(dim, pad(name, 8)), l)
	}
}

// shown is how many exchanges of a case the table shows.
const shown = 12

// explain prints what a reader needs about an outcome that is not a PASS.
func (t *table) explain(c probe.Outcome) {
	title := ofRoute(c.Route, line(c.ID)+" "+line(c.Name))
	t.printf("\n%s %s", t.paint(colourOf(c.Verdict), string(c.Verdict)),
		t.paint(bold, cut(title, width-30))+", "+string(c.Severity))
	t.field("checks", c.Checks)
	for i, f := range c.Findings {
		if i == shown {
			t.field("", fmt.Sprintf("… and %d more", len(c.Findings)-shown))
			break
		}
		t.field("found", string(f.Verdict)+": "+f.Text)
	}
	t.field("why", c.Why)
	t.field("fix", c.Fix)
	t.field("source", c.Source)
	name := "sent"
	for i, e := range exchangesOf(c, t.seen) {
		if i == shown {
			t.printf("  %s … and %d more: see the other forms of this report", pad("", 8), len(c.Timeline)-shown)
			break
		}
		sent, answered := exchange(e)
		t.printf("  %s %s", t.paint(dim, pad(name, 8)), sent)
		t.printf("  %s %s", pad("", 8), answered)
		name = ""
	}
}

// exchange returns a request and its answer as two cells.
func exchange(e told) (sent, answered string) {
	label := e.Label
	if e.Caller != "" {
		label = e.Caller + ": " + label
	}
	sent = fmt.Sprintf("%2d %s  %s  %s  %s", e.No, pad(cut(label, 25), 25), cut(e.shortWhat(), 24), keyInWords(e.Key),
		e.requestBody())
	answered = fmt.Sprintf("   %s  → %s %s", pad("in "+inWords(e.Took), 25), e.Result, e.answerBody()+e.Error)
	return strings.TrimRight(cut(sent, width-11), " "), strings.TrimRight(cut(answered, width-11), " ")
}

// summary prints the numbers of verdicts, the causes and the scores. They come last, because the end of the output is
// what a terminal shows.
func (t *table) summary(r *probe.Report) {
	var parts []string
	for _, v := range verdicts() {
		if n := r.Count(v); n > 0 {
			parts = append(parts, t.paint(colourOf(v), fmt.Sprintf("%d %s", n, v)))
		}
	}
	t.printf("%s", strings.Join(parts, "  "))
	t.causes(r)
	for _, s := range scores(r) {
		t.score(s)
	}
}

// causes prints the common causes. They stand before the cases, and again at the end, which is what a terminal shows.
func (t *table) causes(r *probe.Report) {
	for _, c := range causes(r) {
		for _, l := range wrap(c, width) {
			t.printf("%s", t.paint(bold, l))
		}
	}
}

// score prints a verdict, and behind it why.
func (t *table) score(s Score) {
	colour := map[string]string{Yes: green, No: red, NotShown: yellow}[s.Verdict]
	for i, l := range wrap(s.Name+": "+s.String(), width) {
		if i == 0 {
			head := s.Name + ": " + s.Verdict
			l = s.Name + ": " + t.paint(colour, s.Verdict) + strings.TrimPrefix(l, head)
		}
		t.printf("%s", l)
	}
}

const (
	bold    = "1"
	dim     = "2"
	red     = "1;31"
	green   = "32"
	yellow  = "33"
	magenta = "1;35"
	cyan    = "36"
)

// colourOf returns the terminal's colour for a verdict.
func colourOf(v probe.Verdict) string {
	switch v {
	case probe.Fail:
		return red
	case probe.Broken:
		return magenta
	case probe.Warn:
		return yellow
	case probe.Info:
		return cyan
	case probe.Pass:
		return green
	}
	return dim
}

// paint returns the text in a colour, if the output has colours.
func (t *table) paint(colour, text string) string {
	if !t.colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
