// Package config reads the proxy's YAML file. It is strict: what it does not know or cannot do is refused, with the
// place, the line and what to write instead.
package config

import (
	"fmt"
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
}

// Faults is the error for a file: all that is wrong with it, in the order of its lines.
type Faults struct {
	File   string
	Source []byte
	All    []Fault
}

// Error shows each fault with its line, marked.
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

func (f *Faults) write(b *strings.Builder, fault Fault, lines []string) {
	at := fault.At
	if at.Line < 1 || at.Line > len(lines) {
		fmt.Fprintf(b, "%s: %s", f.File, fault.Message)
	} else {
		line := strings.ReplaceAll(strings.TrimRight(lines[at.Line-1], "\r"), "\t", " ")
		fmt.Fprintf(b, "%s:%d:%d: %s\n", f.File, at.Line, at.Column, fault.Message)
		fmt.Fprintf(b, "%6d | %s\n", at.Line, line)
		fmt.Fprintf(b, "       | %s^", strings.Repeat(" ", max(at.Column-1, 0)))
	}
	if fault.Instead != "" {
		fmt.Fprintf(b, "\n       %s", fault.Instead)
	}
}

// wrong is the error of a parse function: what is wrong with a value, and what to write instead.
type wrong struct{ message, instead string }

func (w *wrong) Error() string { return w.message }
