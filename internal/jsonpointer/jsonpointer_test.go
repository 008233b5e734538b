package jsonpointer_test

import (
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
