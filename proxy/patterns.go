package proxy

import (
	"fmt"
	"net/http"
	"strings"
)

// BadPattern says what is wrong with one of a list of patterns.
type BadPattern struct {
	// Index of the pattern in the list.
	Index int
	// With is the index of the earlier pattern that it conflicts with; -1 if the pattern is wrong by itself.
	With int
	// Reason in net/http's words.
	Reason string
}

func (b BadPattern) Error() string { return b.Reason }

// CheckPatterns returns what is wrong with patterns of net/http's ServeMux: those that cannot be read, and those that
// are there twice or match some of the same requests without one being the more specific.
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

// register adds a handler to mux. It returns what ServeMux says against the pattern, which it says by a panic.
func register(mux *http.ServeMux, pattern string, h http.Handler) (reason string) {
	defer func() {
		if said := recover(); said != nil {
			reason = plainly(fmt.Sprint(said))
		}
	}()
	mux.Handle(pattern, h)
	return ""
}

// plainly leaves out of a panic's text where in the source code it came from.
func plainly(said string) string {
	said = strings.TrimPrefix(said, "http: ")
	if _, after, ok := strings.Cut(said, "): "); ok && strings.HasPrefix(said, "parsing ") {
		return after
	}
	if _, after, ok := strings.Cut(said, ":\n"); ok {
		first, _, _ := strings.Cut(after, "\n")
		return strings.TrimSuffix(first, ".")
	}
	if _, after, ok := strings.Cut(said, `": `); ok && strings.HasPrefix(said, "parsing ") {
		return after
	}
	return said
}
