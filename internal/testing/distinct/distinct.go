// Package distinct checks that functions of lists of texts, such as digests, keep different lists apart.
package distinct

import (
	"strings"
	"testing"
)

// Want checks that different lists of parts give different IDs.
func Want(t *testing.T, lists [][]string, id func(parts []string) string) {
	t.Helper()
	seen := map[string][]string{}
	for _, parts := range lists {
		if other, ok := seen[id(parts)]; ok {
			t.Errorf("%.60q and %.60q give the same", parts, other)
		}
		seen[id(parts)] = parts
	}
}

// Alike returns different lists of parts that are easily taken for each other.
func Alike() [][]string {
	long := strings.Repeat("a", 300)
	lists := [][]string{
		{"a%2Fb"},
		{"a%2fb"},
		{"a%252Fb"},
		{"%"},
		{"%25"},
		{"%2525"},
		{"\x00"},
		{"\x00", ""},
		{"a\x00b"},
		{"A"},
		{" a"},
		{"a "},
		{long},
		{long[:299], "a"},
		{long, "a"},
		{long + "a"},
		{"\xff"},
		{"\xfe"},
		{"\ufffd"},
		{"\u00e9"},
		{"e\u0301"},
	}
	for n := range 4 {
		lists = append(lists, Tuples(n)...)
	}
	return lists
}

// Tuples returns all lists of n parts out of a few that join to the same texts.
func Tuples(n int) [][]string {
	if n == 0 {
		return [][]string{{}}
	}
	var lists [][]string
	for _, first := range []string{"", "a", "b", "ab", "a/b", "/", "\x01a"} {
		for _, rest := range Tuples(n - 1) {
			lists = append(lists, append([]string{first}, rest...))
		}
	}
	return lists
}
