package report_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/report"
)

// hostile texts are what a target could answer to harm who reads the report.
func hostile() []string {
	return []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`,
		`</pre></svg></style><script>`, `</title><svg onload=alert(1)>`,
		`<!-- `, `-->`, `]]>`, `<![CDATA[x]]>`, `&amp;&lt;&#x3c;`, `javascript:alert(1)`, `{{.Target}}`,
		"\x1b[2J\x1b]0;owned\x07", "\x9b31m", "a\x00b\x08\x7f",
		"over\rwritten", "line\nbreak | and | bars", "\u202eright to left\u202c", "zero\u200bwidth\ufeff",
		"\xff\xfe\xc3\x28", "\ufffe\uffff", "\u2028\u2029",
		"[link](http://evil.test) ![x](y) @someone #12 **bold** `code` ```", "| --- |\n# title", "<a href=//evil.test>", strings.Repeat("wide界", 300),
		strings.Repeat("x", 5000), "e" + strings.Repeat("\u0301", 200), "https://evil.test www.evil.test", `\`, `%s %n`, "\tab", "</text><text>",
	}
}

// The hostile texts are its seeds, so that each test run tries them.
func FuzzForms(f *testing.F) {
	for _, text := range hostile() {
		f.Add(text)
	}
	harmless := allForms(f, reportWith("·harmless"))
	f.Fuzz(func(t *testing.T, text string) { checkForms(t, text, harmless) })
}

// checkForms compares each form of a report that has the text with one that has a harmless one in its place.
func checkForms(t *testing.T, text string, want map[string]string) {
	t.Helper()
	got := allForms(t, reportWith("·"+text))
	for _, form := range []string{"html", "junit", "badge"} {
		made, err := structure(got[form], form != "html")
		if err != nil {
			t.Fatalf("%s with %q: %v", form, text, err)
		}
		if usual, _ := structure(want[form], form != "html"); made != usual {
			t.Fatalf("%s: %q changes what the page is made of:\n%s\nwant\n%s", form, text, made, usual)
		}
	}
	for _, form := range []string{"sarif", "json"} {
		if !json.Valid([]byte(got[form])) {
			t.Fatalf("%s: %q makes it invalid", form, text)
		}
	}
	for _, form := range []string{"html", "junit", "badge", "table", "markdown"} {
		if i := strings.IndexFunc(got[form], unseen); i >= 0 {
			t.Fatalf("%s: %q gets through: %.40q", form, text, got[form][i:])
		}
	}
	checkMarkdown(t, text, got["markdown"], want["markdown"])
}

func allForms(t testing.TB, r *probe.Report) map[string]string {
	t.Helper()
	all := map[string]string{}
	for form := range forms() {
		all[form] = written(t, form, r)
	}
	return all
}

// structure is the elements and the names of their attributes, and the values of those that load or run something.
func structure(text string, strict bool) (string, error) {
	d := xml.NewDecoder(strings.NewReader(text))
	if d.Strict = strict; !strict {
		d.AutoClose, d.Entity = xml.HTMLAutoClose, xml.HTMLEntity
	}
	var b strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return "", err
		}
		switch token := token.(type) {
		case xml.StartElement:
			b.WriteString("<" + token.Name.Local)
			for _, a := range token.Attr {
				b.WriteString(" " + a.Name.Local)
				if a.Name.Local == "href" || a.Name.Local == "id" || a.Name.Local == "class" && !strings.Contains(a.Value, "status") {
					b.WriteString("=" + a.Value)
				}
			}
			b.WriteString(">\n")
		case xml.EndElement:
			b.WriteString("</" + token.Name.Local + ">\n")
		case xml.Comment:
			b.WriteString("comment\n")
		}
	}
}

// unseen are characters that a reader does not see, but for ends of lines and tabs.
func unseen(c rune) bool {
	return c != '\n' && c != '\t' && (unicode.In(c, unicode.C, unicode.Zl, unicode.Zp) || c == '\ufffe')
}

// checkMarkdown wants as many lines, and as many bars that divide cells, as a harmless text makes. The only markup
// that may be there is the empty comment that keeps GitHub from finding mentions.
func checkMarkdown(t *testing.T, text, got, harmless string) {
	t.Helper()
	got = unescaped(strings.ReplaceAll(got, "<!-- -->", ""))
	if strings.Contains(got, "<") {
		t.Fatalf("markdown: %q brings in a tag", text)
	}
	for _, mark := range []string{"\n", "|", "](", "\n#", "\n```", "**"} {
		if n, want := strings.Count(got, mark), strings.Count(unescaped(harmless), mark); n != want {
			t.Fatalf("markdown: %q makes %d of %q, want %d", text, n, mark, want)
		}
	}
}

// unescaped is Markdown without what is escaped in it.
func unescaped(text string) string {
	return regexp.MustCompile(`\\[[:punct:]]`).ReplaceAllString(text, "")
}

func TestColoursAreTheOnlyEscapes(t *testing.T) {
	t.Parallel()
	for _, text := range hostile() {
		var b strings.Builder
		if err := report.Table(&b, reportWith(text), report.TableOptions{Colour: true}); err != nil {
			t.Fatal(err)
		}
		rest := b.String()
		for _, code := range []string{"0", "1", "2", "1;31", "32", "33", "1;35", "36"} {
			rest = strings.ReplaceAll(rest, "\x1b["+code+"m", "")
		}
		if i := strings.IndexFunc(rest, unseen); i >= 0 {
			t.Errorf("%q gets through: %q", text, rest[i:min(i+20, len(rest))])
		}
	}
}
