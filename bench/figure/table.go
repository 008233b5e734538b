package figure

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Width is the maximum number of columns of a table.
const Width = 118

type column struct {
	title string
	width int
	right bool
}

func columns() []column {
	return []column{
		{"goal", 4, false},
		{"what", 44, false},
		{"sync", 8, true},
		{"target", 8, true},
		{"median", 11, true},
		{"range", 14, true},
		{"n", 3, true},
		{"met", 17, false},
	}
}

// WriteTable prints figures, ordered by goal, within Width columns.
func WriteTable(w io.Writer, figures []Figure) {
	titles := make([]string, len(columns()))
	for i, c := range columns() {
		titles[i] = c.title
	}
	writeLine(w, titles)
	fmt.Fprintln(w, strings.Repeat("─", Width-2))
	last := 0
	for _, f := range Ordered(figures) {
		goal := ""
		if f.Goal != last {
			goal = fmt.Sprint(f.Goal)
		}
		last = f.Goal
		writeLine(w, []string{
			goal, f.What, f.SyncText(), f.TargetText(), f.MedianText(), f.SpreadText(), fmt.Sprint(len(f.Samples)),
			string(f.Verdict()),
		})
		for _, line := range wrap(f.Aside, Width-9) {
			fmt.Fprintln(w, "       "+line)
		}
	}
}

// Ordered returns the figures sorted by goal; within a goal the order of measurement is kept.
func Ordered(figures []Figure) []Figure {
	ordered := slices.Clone(figures)
	slices.SortStableFunc(ordered, func(a, b Figure) int { return a.Goal - b.Goal })
	return ordered
}

func writeLine(w io.Writer, cells []string) {
	var line strings.Builder
	for i, c := range columns() {
		pad := strings.Repeat(" ", max(0, c.width-utf8.RuneCountInString(cells[i])))
		if c.right {
			line.WriteString(pad + cells[i])
		} else {
			line.WriteString(cells[i] + pad)
		}
		line.WriteByte(' ')
	}
	fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
}

// wrap breaks text at spaces into lines of at most width characters.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
