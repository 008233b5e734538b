package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table prints rows in columns, or each row as a line of JSON.
type Table struct {
	out    io.Writer
	tabs   *tabwriter.Writer
	header string // empty once it is printed
	asJSON bool
}

// NewTable returns an empty table with these columns. With asJSON it prints values instead of columns.
func NewTable(out io.Writer, asJSON bool, columns ...string) *Table {
	return &Table{
		out: out, tabs: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), header: strings.Join(columns, "\t"),
		asJSON: asJSON,
	}
}

// Add prints a row: the cells, or the value as JSON. The header comes before the first row.
func (t *Table) Add(value any, cells ...string) error {
	if t.asJSON {
		return PrintJSON(t.out, value)
	}
	if t.header != "" {
		fmt.Fprintln(t.tabs, t.header)
		t.header = ""
	}
	_, err := fmt.Fprintln(t.tabs, strings.Join(cells, "\t"))
	return err
}

// Flush ends the rows without a summary.
func (t *Table) Flush() error { return t.tabs.Flush() }

// End prints the summary below the rows. JSON has none.
func (t *Table) End(summary string) error {
	if t.asJSON {
		return nil
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(t.out, summary)
	return err
}
