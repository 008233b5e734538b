package recipe

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// variablesOf is an environment for tests.
func variablesOf(name string) (string, bool) {
	v, ok := map[string]string{
		"TOKEN_A": "t-a", "TOKEN_B": "t-b", "DB": "postgres://reader:s3cret@db/shop",
		"TWO_LINES": "a\nb", "PLACE": "{{amuont}}",
	}[name]
	return v, ok
}

func mustParse(t *testing.T, source string) *File {
	t.Helper()
	f, err := Parse("payments.yaml", []byte(source), variablesOf)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func wantText(t *testing.T, what, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%s: %q lacks %q", what, got, part)
		}
	}
}

func lines(all []wire.HeaderLine) string {
	var b strings.Builder
	for _, h := range all {
		b.WriteString(h.Name + ": " + h.Value + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
