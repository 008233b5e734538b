package matrix

import (
	_ "embed"
	"slices"
	"strings"
)

// fault is a row of the matrix.
type fault struct {
	ID    string
	Title string
	// Script is what happens, in words of cell.do. "lead POINT" holds the first client's request at a point, "second
	// POINT" that of another worker. Words with 2 are about that one.
	Script string
	// Free says that the work cannot have begun in the first attempt, so that the key must have an answer in the end.
	Free bool
}

// group is a part of the matrix: a table of the page.
type group struct {
	Title  string
	Faults []fault
}

//go:embed faults.txt
var faultsText string

// groups are all faults, as faults.txt has them.
func groups() (all []group) {
	_, text, _ := strings.Cut(faultsText, "\n\n")
	for line := range strings.Lines(text) {
		line, depth := strings.TrimSpace(line), len(line)-len(strings.TrimLeft(line, " "))
		switch depth {
		case 0:
			all = append(all, group{Title: line})
		case 2:
			id, title, _ := strings.Cut(line, ": ")
			g := &all[len(all)-1]
			g.Faults = append(g.Faults, fault{ID: id, Title: title})
		default:
			faults := all[len(all)-1].Faults
			last := &faults[len(faults)-1]
			last.Script, last.Free = strings.CutPrefix(line, "free: ")
		}
	}
	return all
}

// has reports whether the script has a word.
func (f fault) has(words ...string) bool {
	for op := range strings.SplitSeq(f.Script, ";") {
		fields := strings.Fields(op)
		if len(words) <= len(fields) && slices.Equal(fields[:len(words)], words) {
			return true
		}
	}
	return false
}

// arms reports whether the script has something about a point.
func (f fault) arms(point string) bool { return strings.Contains(f.Script, point) }

// The variants of a stand: with a server that runs from cell to cell, with one whose clock can be set, with replicas.
const (
	plain     = ""
	withClock = "clock"
	withHA    = "replicas"
)

// variant is the stand that the fault needs.
func (f fault) variant() string {
	switch {
	case f.has("server", "ahead"), f.has("server", "behind"):
		return withClock
	case f.has("server", "failover"), f.has("isolate"):
		return withHA
	}
	return plain
}
