package httpsafe

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"strings"
)

// policyHead is the beginning of the page, with its style.
//
//go:embed policypage.html
var policyHead string

// html returns the page.
//
// Package html/template would write it, too. But a template may call any method of any value, so that the linker keeps
// all methods in a program that uses templates, and this package is in programs with the large clients of clouds.
func (p policyPage) html() []byte {
	b := bytes.NewBufferString(policyHead)
	for _, r := range p.Routes {
		fmt.Fprintf(b, "\n<h2>%s</h2>\n", code(r.Route))
		writeTable(b, r.rows())
	}
	b.WriteString("\n<h2>Problems</h2>\n")
	for _, one := range p.Problems {
		fmt.Fprintf(b, "\n<section id=\"%s\">\n<h3>%s</h3>\n<p>%s</p>\n",
			escape(one.Slug), escape(one.Title), escape(one.Detail))
		writeTable(b, one.rows())
		b.WriteString("</section>\n")
	}
	b.WriteString("\n</body>\n</html>\n")
	return b.Bytes()
}

// tableRow is a row of a table. The cell is HTML; if it is empty, the row is left out.
type tableRow struct{ heading, cell string }

func writeTable(b *bytes.Buffer, rows []tableRow) {
	b.WriteString("<table>\n")
	for _, r := range rows {
		if r.cell != "" {
			fmt.Fprintf(b, "<tr><th>%s</th><td>%s</td></tr>\n", escape(r.heading), r.cell)
		}
	}
	b.WriteString("</table>\n")
}

func (r Rules) rows() []tableRow {
	var failures, age, ambiguous, marker string
	if r.FailureReplaySeconds != r.ReplaySeconds || r.FailureKeySeconds != r.KeySeconds {
		failures = fmt.Sprintf("answers are replayed for %s, and a key stays taken for %s",
			durationInWords(r.FailureReplaySeconds), durationInWords(r.FailureKeySeconds))
	}
	if r.MaxKeyAgeSeconds != 0 {
		age = "is younger than " + durationInWords(r.MaxKeyAgeSeconds)
	}
	if r.StatusesAmbiguous != "" {
		ambiguous = r.StatusesAmbiguous + ": " + r.AmbiguousPolicy
	}
	if r.Marker != "" {
		marker = code(r.Marker + ": true")
	}
	redacted := make([]string, len(r.Redacted))
	for i, pointer := range r.Redacted {
		redacted[i] = code(pointer)
	}
	return []tableRow{
		{"Key", escape(r.Key + either(r.Required, " (required)", " (optional)"))},
		{"Form of keys", escape(r.KeySyntax)},
		{"Requests are signed", either(r.Signed, "one without a valid signature is refused", "")},
		{"Methods", escape(strings.Join(r.Methods, ", "))},
		{"A key belongs to", escape(r.KeyScope)},
		{"Requests are compared by", escape(r.Fingerprint)},
		{"Answers are replayed for", durationInWords(r.ReplaySeconds) + " after the first one"},
		{"A key stays taken for", durationInWords(r.KeySeconds) + " after the first answer"},
		{"After a failure (400 and above)", failures},
		{"A new key that is a UUIDv7", age},
		{"While the first request runs", escape(r.InFlight)},
		{"Statuses kept and replayed", escape(r.StatusesStored)},
		{"Statuses that free the key", escape(cmp.Or(r.StatusesReleased, "none"))},
		{"Ambiguous statuses", escape(cmp.Or(ambiguous, "none"))},
		{"Largest request", sizeInWords(r.MaxRequestBytes)},
		{
			"Largest response kept",
			sizeInWords(r.MaxResponseBytes) + "; of larger ones a retry gets the status without the body",
		},
		{"Replays do not have the values at", strings.Join(redacted, ", ")},
		{"Replays are marked", marker},
	}
}

func (p problemPage) rows() []tableRow {
	var operators string
	if p.Runbook != "" {
		operators = `<a href="` + escape(p.Runbook) + `">how to find out what happened, and to resolve the key</a>`
	}
	return []tableRow{
		{"Type", code(p.Type)},
		{"Status", fmt.Sprint(p.Status)},
		{"Was the operation run?", escape(p.Executed)},
		{"May be retried unchanged", either(p.Retryable, "yes", "no")},
		{"Needs a new key", either(p.NewKeyRequired, "yes", "no")},
		{"For operators of this API", operators},
	}
}

func code(text string) string { return "<code>" + escape(text) + "</code>" }

// escape makes HTML of a text.
func escape[T ~string](text T) string { return html.EscapeString(string(text)) }

func either(yes bool, then, otherwise string) string {
	if yes {
		return then
	}
	return otherwise
}

// unit is a unit of time or size. It is used for amounts of at least least.
type unit struct {
	size, least int64
	name        string
}

func durationInWords(seconds int64) string {
	return inUnits(seconds, unit{86400, 2 * 86400, "d"}, unit{3600, 3600, "h"}, unit{60, 60, "min"}, unit{1, 0, "s"})
}

func sizeInWords(bytes int64) string {
	return inUnits(bytes, unit{1 << 20, 1 << 20, "MiB"}, unit{1 << 10, 1 << 10, "KiB"}, unit{1, 0, "bytes"})
}

// inUnits writes n in the first unit that divides it.
func inUnits(n int64, units ...unit) string {
	for _, u := range units {
		if n >= u.least && n%u.size == 0 {
			return fmt.Sprint(n/u.size, " ", u.name)
		}
	}
	return fmt.Sprint(n)
}
