package jsonpointer_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/jsonpointer"
)

// Seen to fail with two passes: Unescape with "~0" before "~1", for which "~01" was a slash, and Escape with the slash
// before the tilde.
func TestEscapes(t *testing.T) {
	for name, part := range map[string]string{"": "", "a": "a", "a/b": "a~1b", "m~n": "m~0n", "~1": "~01", "~/": "~0~1"} {
		if got := jsonpointer.Escape(name); got != part {
			t.Errorf("Escape(%q) = %q, want %q", name, got, part)
		}
		if got := jsonpointer.Unescape(part); got != name {
			t.Errorf("Unescape(%q) = %q, want %q", part, got, name)
		}
	}
}

// A name comes back from the part of a pointer that stands for it, which has no slash and is what two passes make.
// Seen to fail with Escape in two passes, the slash first.
func FuzzEscape(f *testing.F) {
	for _, name := range []string{"", "a/b", "~1", "~01", "~~/~", "\xff/"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		part := jsonpointer.Escape(name)
		if want := strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1"); part != want {
			t.Errorf("Escape(%q) = %q, want %q", name, part, want)
		}
		if again := jsonpointer.Unescape(part); again != name || strings.Contains(part, "/") {
			t.Errorf("%q became %q, and that %q", name, part, again)
		}
		want := strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		if got := jsonpointer.Unescape(name); got != want {
			t.Errorf("Unescape(%q) = %q, want %q", name, got, want)
		}
	})
}
