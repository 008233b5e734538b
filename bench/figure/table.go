package figure

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Width is the maximum number of columns of a table.
const Width = 118

// WriteTable prints figures. Below the line of each figure is its Aside.
func WriteTable(w io.Writer, figures []Figure) {
	lines := strings.Split(newTable(figures).Render(), "\n")
	head := len(lines) - len(figures)
	fmt.Fprintln(w, strings.Join(lines[:head], "\n"))
	for i, f := range figures {
		fmt.Fprintln(w, lines[head+i])
		for line := range strings.Lines(text.WrapSoft(f.Aside, Width-7)) {
			fmt.Fprintln(w, "     "+strings.TrimSpace(line))
		}
	}
}

// newTable returns a table with a line for each figure.
func newTable(figures []Figure) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft = ""
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	var right []table.ColumnConfig
	for _, name := range []string{"sync", "target", "median", "spread", "n"} {
		right = append(right, table.ColumnConfig{Name: name, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	t.AppendHeader(table.Row{"goal", "what", "sync", "target", "median", "spread", "n", "met"})
	last := 0
	for _, f := range figures {
		goal, sync := "", ""
		if f.Goal != last {
			goal = fmt.Sprint(f.Goal)
		}
		if f.Sync != 0 {
			sync = Short(f.Sync) + " µs"
		}
		last = f.Goal
		t.AppendRow(table.Row{
			goal, f.What, sync, f.TargetText(), f.MedianText(), f.SpreadText(), len(f.Samples), f.Verdict(),
		})
	}
	return t
}
