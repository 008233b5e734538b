package config

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Setting is a value that may be set, and where it was.
type Setting[T any] struct {
	Value T
	Set   bool
	At    Position
}

// Given returns a Setting that is set, but not in a file.
func Given[T any](v T) Setting[T] { return Setting[T]{Value: v, Set: true} }

// Or returns s, or other if s is not set.
func (s Setting[T]) Or(other Setting[T]) Setting[T] {
	if s.Set {
		return s
	}
	return other
}

// Default sets s to v unless it is set.
func (s *Setting[T]) Default(v T) {
	if !s.Set {
		s.Value = v
	}
}

// scalar reads a single value.
func scalar[T any](s *Setting[T], parse func(string) (T, error)) field {
	return func(r *reader, n ast.Node) {
		text, ok := r.text(n)
		if !ok {
			return
		}
		v, err := parse(text)
		if err != nil {
			r.wrong(n, err)
			return
		}
		*s = Setting[T]{Value: v, Set: true, At: position(n)}
	}
}

// list reads a sequence of single values.
func list(s *Setting[[]string], parse func(string) (string, error)) field {
	return func(r *reader, n ast.Node) {
		sequence, ok := n.(*ast.SequenceNode)
		if !ok || len(sequence.Values) == 0 {
			r.fault(n, "a list with at least one value is needed here", "write [one, two]")
			return
		}
		values := make([]string, 0, len(sequence.Values))
		for _, item := range sequence.Values {
			text, ok := r.text(item)
			if !ok {
				continue
			}
			v, err := parse(text)
			if err != nil {
				r.wrong(item, err)
				continue
			}
			values = append(values, v)
		}
		*s = Setting[[]string]{Value: values, Set: true, At: position(n)}
	}
}

func parseText(s string) (string, error) {
	if strings.TrimSpace(s) == "" {
		return "", &wrong{"the value is empty", "give it one, or leave the line out"}
	}
	return s, nil
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, &wrong{fmt.Sprintf("%q is neither true nor false", s), "write true or false"}
}

// maxDuration is a hundred years: beyond that, sums of durations overflow.
const maxDuration = 100 * 365 * 24 * time.Hour

func parseDuration(s string) (time.Duration, error) {
	bad := &wrong{fmt.Sprintf("%q is no duration", s), "write a number and a unit: 500ms, 30s, 15m, 24h or 30d"}
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		if err == nil && n > int(maxDuration/(24*time.Hour)) {
			return 0, &wrong{fmt.Sprintf("%q is more than a hundred years", s), ""}
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	switch {
	case err != nil:
		return 0, bad
	case d <= 0:
		return 0, &wrong{fmt.Sprintf("%q is not more than zero", s), "leave the line out for the default"}
	case d > maxDuration:
		return 0, &wrong{fmt.Sprintf("%q is more than a hundred years", s), ""}
	}
	return d, nil
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}

func parseSize(s string) (int64, error) {
	for _, unit := range sizeUnits {
		number, ok := strings.CutSuffix(s, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n <= 0 || n > math.MaxInt32/unit.bytes {
			break
		}
		return n * unit.bytes, nil
	}
	return 0, &wrong{fmt.Sprintf("%q is no size", s), "write a number and a unit: 64KiB or 1MiB; 2GiB is too much"}
}

// choice accepts one of some words.
func choice(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		for _, w := range words {
			if s == w {
				return s, nil
			}
		}
		return "", &wrong{fmt.Sprintf("%q is not known here", s), "write one of: " + strings.Join(words, ", ")}
	}
}

// ParseListen checks an address to listen on.
func ParseListen(s string) (string, error) {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", &wrong{fmt.Sprintf("%q is no address to listen on", s), "write host:port or :port, as in 127.0.0.1:8080"}
	}
	return s, nil
}

// ParseUpstream checks an upstream's URL.
func ParseUpstream(s string) (*url.URL, error) {
	bad := func(why string) error {
		return &wrong{fmt.Sprintf("upstream %q %s", s, why), "write http://host:port, https://host or h2c://host:port"}
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, bad("is no URL")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		return nil, bad("has no scheme that the proxy speaks")
	case u.Host == "":
		return nil, bad("names no host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, bad("may have a scheme, a host and a path, nothing else")
	}
	return u, nil
}

func parsePublicURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" {
		return "", &wrong{fmt.Sprintf("%q is no URL that clients could open", s), "write https://api.example.com"}
	}
	return strings.TrimSuffix(s, "/"), nil
}

func parseFieldName(s string) (string, error) {
	if s == "" || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		return "", &wrong{fmt.Sprintf("%q is no name of a header field", s), "write a name such as Idempotency-Key"}
	}
	return s, nil
}

func parsePointer(s string) (string, error) {
	if !strings.HasPrefix(s, "/") {
		return "", &wrong{fmt.Sprintf("%q is no JSON pointer", s), "it begins with a slash: /" + strings.ReplaceAll(s, ".", "/")}
	}
	return s, nil
}
