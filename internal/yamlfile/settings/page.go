package settings

import (
	"fmt"
	"strings"
)

// Insert returns the Markdown of a page with the list of the entries between two of its lines: see Replace. The error
// says that the page has no such lines, or which field has no comment.
func Insert(page, mark string, entries []Entry) (string, error) {
	var b strings.Builder
	if err := list(&b, entries, ""); err != nil {
		return "", err
	}
	return Replace(page, mark, b.String())
}

// Replace returns the Markdown of a page with a text between two of its lines, in place of what stands there. The lines
// are, for the mark "fields",
//
//	<!-- fields: written by go test ./config -write -->
//
//	<!-- end of fields -->
//
// of which the first may say anything after the colon. The error says that the page has no such lines.
func Replace(page, mark, text string) (string, error) {
	before, rest, ok := strings.Cut(page, "<!-- "+mark+": ")
	note, rest, closed := strings.Cut(rest, " -->\n")
	_, after, ended := strings.Cut(rest, "\n<!-- end of "+mark+" -->")
	if !ok || !closed || !ended {
		return "", fmt.Errorf("the page has no lines <!-- %[1]s: … --> and <!-- end of %[1]s -->", mark)
	}
	return before + "<!-- " + mark + ": " + note + " -->\n\n" + text + "\n<!-- end of " + mark + " -->" + after, nil
}

// list writes a list of entries.
func list(b *strings.Builder, entries []Entry, indent string) error {
	for _, e := range entries {
		if e.Text == "" {
			return fmt.Errorf("%s: its comment must begin with its name and a colon, \"is\" or \"are\"", e.of.in)
		}
		head := "`" + e.Name + "`"
		if e.Default != "" {
			head += " (default `" + e.Default + "`)"
		}
		inItems := false
		for i, paragraph := range paragraphs(e.Text) {
			item := strings.HasPrefix(paragraph, "- ")
			switch {
			case i == 0:
				b.WriteString(wrap(head+": "+paragraph, indent+"- ", indent+"  "))
			case item:
				inItems = true
				b.WriteString(wrap(paragraph[2:], indent+"  - ", indent+"    "))
			default:
				if inItems {
					b.WriteString("\n")
				}
				b.WriteString(wrap(paragraph, indent+"  ", indent+"  "))
			}
		}
		if err := list(b, e.Inner, indent+"  "); err != nil {
			return err
		}
	}
	return nil
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
