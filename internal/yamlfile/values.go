package yamlfile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Scalar reads a single value.
func Scalar[T any](to *T, parse func(string) (T, error)) Field {
	return func(r *Reader, n ast.Node) {
		text, ok := r.Text(n)
		if !ok {
			return
		}
		v, err := parse(text)
		if err != nil {
			r.Wrong(n, err)
			return
		}
		*to = v
	}
}

// List reads a sequence of single values. Those that are refused are left out.
func List[T any](to *[]T, parse func(string) (T, error)) Field {
	return func(r *Reader, n ast.Node) {
		sequence, ok := n.(*ast.SequenceNode)
		if !ok || len(sequence.Values) == 0 {
			r.Fault(n, "this must be a list with at least one value", "write [one, two]")
			return
		}
		for _, item := range sequence.Values {
			Scalar(to, func(text string) ([]T, error) {
				v, err := parse(text)
				return append(*to, v), err
			})(r, item)
		}
	}
}

// Filled accepts any text that is not empty.
func Filled(s string) (string, error) {
	if strings.TrimSpace(s) == "" {
		return "", Wrong("the value is empty", "write a value, or leave the line out")
	}
	return s, nil
}

// Bool accepts true and false, but not the other words that YAML 1.1 has for them, such as yes and on.
func Bool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, Wrong(fmt.Sprintf("%q is neither true nor false", s), "write true or false")
}

// maxDuration is a hundred years: beyond that, sums of durations overflow.
const maxDuration = 100 * 365 * 24 * time.Hour

// ParseDuration accepts the durations of Go, and whole days, as in 30d. More than 100,000 days are as many as that.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(max(-1e5, min(n, 1e5))) * 24 * time.Hour
	}
	if err != nil {
		return 0, Wrong(fmt.Sprintf("%q is not a duration", s), "write a number and a unit: 500ms, 30s, 15m, 24h or 30d")
	}
	return d, nil
}

// Duration accepts what ParseDuration does, if it is more than zero.
func Duration(s string) (time.Duration, error) {
	d, err := ParseDuration(s)
	switch {
	case err != nil:
		return 0, err
	case d <= 0:
		return 0, Wrong(fmt.Sprintf("%q is not more than zero", s), "leave the line out for the default")
	case d > maxDuration:
		return 0, Wrong(fmt.Sprintf("%q is more than a hundred years", s), "")
	}
	return d, nil
}

// Between returns a function that accepts whole numbers in a range.
func Between(low, high int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < low || n > high {
			return 0, Wrong(fmt.Sprintf("%q is not a number from %d to %d", s, low, high), "")
		}
		return n, nil
	}
}

// Choice returns a function that accepts one of some words. Its error suggests the nearest one.
func Choice(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		for _, w := range words {
			if s == w {
				return s, nil
			}
		}
		if near := Nearest(s, words); near != "" {
			return "", Wrong(fmt.Sprintf("%q is not a known value", s), fmt.Sprintf("did you mean %s?", near))
		}
		return "", Wrong(fmt.Sprintf("%q is not a known value", s), "write one of: "+strings.Join(words, ", "))
	}
}

// Nearest returns the word that was most likely meant, or "" if none is close.
func Nearest(name string, words []string) string {
	plain := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	for _, w := range words {
		if strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(w)) == plain {
			return w
		}
	}
	best, least := "", 3
	for _, w := range words {
		d := distance(name, w)
		alike := d < len(w) && (d == 1 || name != "" && name[0] == w[0]) // people get first letters right
		if alike && d < least {
			best, least = w, d
		}
	}
	return best
}

// distance returns the number of letters to add, drop or change to turn a into b. Long names are not compared.
func distance(a, b string) int {
	if len(a) > 32 || len(b) > 32 {
		return 32
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
