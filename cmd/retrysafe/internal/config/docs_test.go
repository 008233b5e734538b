package config

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// Run the test with -write to bring the page up to date.
var write = flag.Bool("write", false, "write the fields into the page")

const page = "../../../../docs/proxy-configuration.md"

// The page describes each field with its default, as the comments of the settings and the defaults in force have them.
//
// Seen to fail with another default, and with a setting that has no comment.
func TestThePageDescribesEachField(t *testing.T) {
	read, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	top := describe()
	var route []entry
	for i, e := range top {
		if e.name == "defaults" {
			route, top[i].inner = e.inner, nil
		}
	}
	text := string(read)
	for mark, entries := range map[string][]entry{"fields": top, "route": route} {
		begin, end := "<!-- "+mark+": written by go test ./internal/config -write -->\n", "\n<!-- end of "+mark+" -->"
		before, rest, ok := strings.Cut(text, begin)
		_, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			t.Fatalf("the page lacks %q", begin+"…"+end)
		}
		text = before + begin + "\n" + markdown(t, entries, "") + end + after
	}
	switch {
	case text == string(read):
	case *write:
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the settings; run go test ./internal/config -write in cmd/retrysafe. Want\n%s", page, text)
	}
}

// The help of a flag is the first sentence about its setting, and the default.
//
// Seen to fail with the marks of Markdown left in, and with the default of a setting in its text left out.
func TestHelp(t *testing.T) {
	for name, says := range map[string]string{
		"grace": "How long to wait for running operations at shutdown. Default 30s.",
		"admin": "The address that serves /healthz and /readyz. Default: off.",
		"h2c":   "Accept HTTP/2 without TLS.",
		"auth": "A URL that decides whether the caller has access, before a key is claimed or an answer replayed: see " +
			"a revoked login. Default: none.",
		"tls.cert":     "The file of the certificate chain.",
		"limits":       "What clients can make the proxy hold at most.",
		"upstream.url": "Where requests go: http://host:port, https://host or h2c://host:port, and perhaps a path.",
	} {
		want(t, name, Help(name), says)
	}
}

// markdown returns a list of fields.
func markdown(t *testing.T, entries []entry, indent string) string {
	var b strings.Builder
	for _, e := range entries {
		if e.text == "" {
			t.Errorf("%s: its comment must begin with its name and a colon, \"is\" or \"are\"", e.in)
		}
		head := "`" + e.name + "`"
		if e.standard != "" {
			head += " (default `" + e.standard + "`)"
		}
		list := false
		for i, paragraph := range paragraphs(e.text) {
			item := strings.HasPrefix(paragraph, "- ")
			switch {
			case i == 0:
				b.WriteString(wrap(head+": "+paragraph, indent+"- ", indent+"  "))
			case item:
				list = true
				b.WriteString(wrap(paragraph[2:], indent+"  - ", indent+"    "))
			default:
				if list {
					b.WriteString("\n")
				}
				b.WriteString(wrap(paragraph, indent+"  ", indent+"  "))
			}
		}
		b.WriteString(markdown(t, e.inner, indent+"  "))
	}
	return b.String()
}

// paragraphs returns the paragraphs and the items of a comment, each in one line.
func paragraphs(text string) (all []string) {
	for line := range strings.Lines(text) {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "", strings.HasPrefix(trimmed, "- "), len(all) == 0:
			all = append(all, trimmed)
		default:
			all[len(all)-1] = strings.TrimSpace(all[len(all)-1] + " " + trimmed)
		}
	}
	return all
}

// wrap breaks text into lines of at most 120 columns.
func wrap(text, first, indent string) string {
	var b strings.Builder
	line := first
	for word := range strings.FieldsSeq(text) {
		switch {
		case strings.TrimSpace(strings.TrimLeft(line, " -")) == "":
			line += word
		case len([]rune(line))+1+len([]rune(word)) > 120:
			b.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}
