package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// equivalent explains why a change makes no difference. It identifies the change by its content, so that it stays
// valid when lines move.
type equivalent struct {
	file, function string
	before, after  string
	reason         string
}

func (e equivalent) String() string {
	return fmt.Sprintf("%s %s\n- %s\n+ %s\n= %s", e.file, e.function, e.before, e.after, e.reason)
}

func (e equivalent) explains(m mutant) bool {
	return e.file == filepath.Base(m.file) && e.function == m.function && e.before == m.before() && e.after == m.after()
}

type equivalents []equivalent

func (all equivalents) has(m mutant) bool {
	for _, e := range all {
		if e.explains(m) {
			return true
		}
	}
	return false
}

// without returns the explanations that match none of the mutants.
func (all equivalents) without(mutants []mutant) equivalents {
	var stale equivalents
	for _, e := range all {
		used := false
		for _, m := range mutants {
			used = used || e.explains(m)
		}
		if !used {
			stale = append(stale, e)
		}
	}
	return stale
}

// parseEquivalents parses explanations of four lines each, separated by empty lines: the file and the function, the
// line before, the line after, the reason. Lines that start with # are comments.
func parseEquivalents(text string) (equivalents, error) {
	var all equivalents
	var block []string
	for i, line := range strings.Split(text+"\n", "\n") {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "#"):
		case line != "":
			block = append(block, line)
		case len(block) > 0:
			e, err := parseEquivalent(block)
			if err != nil {
				return nil, fmt.Errorf("equivalent.txt, before line %d: %w", i+1, err)
			}
			all = append(all, e)
			block = nil
		}
	}
	return all, nil
}

func parseEquivalent(block []string) (equivalent, error) {
	if len(block) != 4 {
		return equivalent{}, fmt.Errorf("an explanation has 4 lines, this one has %d", len(block))
	}
	file, function, ok := strings.Cut(block[0], " ")
	before, minus := strings.CutPrefix(block[1], "-")
	after, plus := strings.CutPrefix(block[2], "+")
	reason, equals := strings.CutPrefix(block[3], "=")
	if !ok || !minus || !plus || !equals || strings.TrimSpace(reason) == "" {
		return equivalent{}, fmt.Errorf("want the lines: file function; - before; + after; = reason")
	}
	return equivalent{
		file, function, strings.TrimSpace(before), strings.TrimSpace(after), strings.TrimSpace(reason),
	}, nil
}
