package cli

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Span is a duration as people read it.
func Span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Minute:
		return d.Truncate(time.Second).String()
	}
	return d.Truncate(time.Millisecond).String()
}

// BodyText is a body as a terminal can show it: text as it is, anything else as a hex dump.
func BodyText(body []byte) string {
	start := body[:min(len(body), ShownBody)]
	if IsText(body) {
		return strings.ToValidUTF8(string(start), "") // it may end within a character
	}
	return hex.Dump(start)
}

// IsText reports whether a terminal can show it without harm.
func IsText(body []byte) bool {
	return utf8.Valid(body) && !strings.ContainsFunc(string(body), func(r rune) bool {
		return r != '\n' && r != '\t' && !unicode.IsPrint(r)
	})
}

// Clean quotes what a terminal would take for something else than text.
func Clean(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// Shorten keeps a column narrow.
func Shorten(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// leastWrapped is the narrowest column that Wrap makes. A longer word is not divided: people copy it.
const leastWrapped = 20

// Wrap breaks text between its words into lines that fit the columns from indent to width, and indents each but the
// first. A width of 0 is unlimited.
func Wrap(text string, indent, width int) string {
	if width == 0 {
		return text
	}
	room := max(width-indent, leastWrapped)
	var b strings.Builder
	used := 0
	for i, word := range strings.Split(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+n > room:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

// ShownBody is how much of a body BodyText shows, in bytes.
const ShownBody = 4096
