// Package jsonpointer escapes the parts of JSON pointers (RFC 6901, section 3): "~0" stands for a tilde and "~1" for a
// slash. Both directions replace in one pass, because "~01" is "~1" and not a slash.
package jsonpointer

import "strings"

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~0", "~", "~1", "/")
)

// Escape returns the part of a pointer that stands for the member of that name.
func Escape(name string) string { return escape.Replace(name) }

// Unescape returns the name of the member that a part of a pointer stands for.
func Unescape(part string) string { return unescape.Replace(part) }
