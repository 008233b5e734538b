// Package yamlfile reads YAML files strictly: what is not known or makes no sense is refused, with the place, the
// line and what to write instead, and everything that is wrong is said at once.
package yamlfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Position in the file: both count from 1. The zero Position is not in the file.
type Position struct{ Line, Column int }

// Fault is one thing that is wrong with a file.
type Fault struct {
	At      Position
	Message string
	// Instead says what to write; empty if the message says it.
	Instead string
	// Hidden says that the line is not shown: a secret may stand in it.
	Hidden bool
}

// Faults is the error for a file: all that is wrong with it, in the order of its lines.
type Faults struct {
	File   string
	Source []byte
	All    []Fault
}

// Error shows each fault with its line and a mark under it.
func (f *Faults) Error() string {
	lines := strings.Split(string(f.Source), "\n")
	var b strings.Builder
	for i, fault := range f.All {
		if i > 0 {
			b.WriteByte('\n')
		}
		f.write(&b, fault, lines)
	}
	return b.String()
}

// write writes one fault: where it is, the line with a mark under it, and what to write instead.
func (f *Faults) write(b *strings.Builder, fault Fault, lines []string) {
	at := fault.At
	if at.Line < 1 || at.Line > len(lines) {
		fmt.Fprintf(b, "%s: %s", f.File, fault.Message)
	} else {
		fmt.Fprintf(b, "%s:%d:%d: %s", f.File, at.Line, at.Column, fault.Message)
		if !fault.Hidden {
			line := strings.ReplaceAll(strings.TrimRight(lines[at.Line-1], "\r"), "\t", " ")
			fmt.Fprintf(b, "\n%6d | %s\n", at.Line, line)
			fmt.Fprintf(b, "       | %s^", strings.Repeat(" ", max(at.Column-1, 0)))
		}
	}
	if fault.Instead != "" {
		fmt.Fprintf(b, "\n       %s", fault.Instead)
	}
}

// inOrder sorts faults by their place in the file. Faults without a place come last.
func inOrder(faults []Fault) []Fault {
	place := func(f Fault) int {
		if f.At.Line == 0 {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.At.Line, b.At.Line),
			cmp.Compare(a.At.Column, b.At.Column))
	})
	return faults
}

// problem is what a parse function says is wrong with a value, and what to write instead.
type problem struct{ message, instead string }

// Error implements error.
func (w *problem) Error() string { return w.message }

// Wrong returns the error of a parse function: what is wrong with a value, and what to write instead.
func Wrong(message, instead string) error { return &problem{message, instead} }

// ForFlag returns the error of a parse function as that of a flag on the command line.
func ForFlag(flag string, err error) error {
	var w *problem
	if errors.As(err, &w) && w.instead != "" {
		return fmt.Errorf("%s: %w: %s", flag, err, w.instead)
	}
	return fmt.Errorf("%s: %w", flag, err)
}
