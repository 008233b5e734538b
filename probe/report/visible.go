package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// line returns the text of a target as one line in which hidden characters are written out: control characters, which
// move the cursor or colour the terminal, and format characters, which reverse or hide text.
func line(s string) string {
	return strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(lines(s))
}

// lines returns the text of a target with hidden characters written out. Line ends and tabs stay.
func lines(s string) string {
	var b strings.Builder
	s = strings.ReplaceAll(s, "\r\n", "\n")
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case c == '\n' || c == '\t' || !hidden(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			fmt.Fprintf(&b, `\u{%x}`, c)
		}
		i += size
	}
	return b.String()
}

// hidden reports characters that a reader does not see: controls, formats, separators of lines, private and
// unassigned ones.
func hidden(c rune) bool {
	return unicode.In(c, unicode.C, unicode.Zl, unicode.Zp) || !unicode.IsGraphic(c)
}

// wide are characters that take two columns of a terminal.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1},
		{Lo: 0x2e80, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1},
		{Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff00, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0x1f300, Hi: 0x1faff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1}},
}

// columnsOf returns how many columns of a terminal a character takes.
func columnsOf(c rune) int {
	switch {
	case unicode.In(c, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, c):
		return 2
	}
	return 1
}

// columns returns how many columns of a terminal a text takes.
func columns(s string) (n int) {
	for _, c := range s {
		n += columnsOf(c)
	}
	return n
}

// cut returns the beginning of a text, of at most that many columns.
func cut(s string, most int) string {
	if columns(s) <= most {
		return s
	}
	n := 0
	for i, c := range s {
		if n += columnsOf(c); n > most-1 {
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}

// pad fills a text up with spaces.
func pad(s string, width int) string { return s + strings.Repeat(" ", max(0, width-columns(s))) }

// wrap breaks a text into lines of at most that many columns.
func wrap(s string, width int) (all []string) {
	at := ""
	for _, word := range strings.Fields(s) {
		for columns(word) > width {
			head := strings.TrimSuffix(cut(word, width+1), "…")
			if head == word || head == "" {
				break
			}
			if at != "" {
				all, at = append(all, at), ""
			}
			all, word = append(all, head), word[len(head):]
		}
		switch {
		case at == "":
			at = word
		case columns(at)+1+columns(word) <= width:
			at += " " + word
		default:
			all, at = append(all, at), word
		}
	}
	if at != "" {
		all = append(all, at)
	}
	return all
}
