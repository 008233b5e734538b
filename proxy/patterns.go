package proxy

import (
	"fmt"
	"net/http"
	"strings"
)

// BadPattern is an error in one of a list of patterns.
type BadPattern struct {
	// Index of the pattern in the list.
	Index int
	// With is the index of the earlier pattern that it conflicts with; -1 if the pattern is wrong by itself.
	With int
	// Reason is net/http's error text.
	Reason string
}

func (b BadPattern) Error() string { return b.Reason }

// CheckPatterns returns the errors in a list of patterns for net/http's ServeMux: patterns that are invalid, that
// occur twice, or that match some of the same requests although neither is more specific.
func CheckPatterns(patterns []string) []BadPattern {
	var all []BadPattern
	for i, p := range patterns {
		if bad, ok := checkPattern(patterns[:i], p); !ok {
			bad.Index = i
			all = append(all, bad)
		}
	}
	return all
}

// checkPattern checks one pattern, by itself and against the earlier ones.
func checkPattern(earlier []string, p string) (BadPattern, bool) {
	if reason := register(http.NewServeMux(), p, http.NotFoundHandler()); reason != "" {
		return BadPattern{With: -1, Reason: reason}, false
	}
	for i, other := range earlier {
		mux := http.NewServeMux()
		if register(mux, other, http.NotFoundHandler()) != "" {
			continue // wrong by itself
		}
		if reason := register(mux, p, http.NotFoundHandler()); reason != "" {
			return BadPattern{With: i, Reason: reason}, false
		}
	}
	return BadPattern{}, true
}

// register adds a handler to mux. It returns the error of ServeMux, which panics for an invalid pattern.
func register(mux *http.ServeMux, pattern string, h http.Handler) (reason string) {
	defer func() {
		if problem := recover(); problem != nil {
			reason = plainly(fmt.Sprint(problem))
		}
	}()
	mux.Handle(pattern, h)
	return ""
}

// plainly removes the position in the source code from the text of a panic.
func plainly(text string) string {
	text = strings.TrimPrefix(text, "http: ")
	if _, after, ok := strings.Cut(text, "): "); ok && strings.HasPrefix(text, "parsing ") {
		return after
	}
	if _, after, ok := strings.Cut(text, ":\n"); ok {
		first, _, _ := strings.Cut(after, "\n")
		return strings.TrimSuffix(first, ".")
	}
	if _, after, ok := strings.Cut(text, `": `); ok && strings.HasPrefix(text, "parsing ") {
		return after
	}
	return text
}
