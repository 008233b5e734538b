package sqlfunctions

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"
)

// Migrations checks that no migration has changed that databases may have: the files that match pattern are those of
// want, by the beginnings of their SHA-256. A change of the schema is a new migration.
func Migrations(t *testing.T, files fs.FS, pattern string, want map[string]string) {
	t.Helper()
	names, err := fs.Glob(files, pattern)
	if err != nil {
		t.Fatal(err)
	}
	if known := slices.Sorted(maps.Keys(want)); !slices.Equal(names, known) {
		t.Errorf("the migrations are %v, and the test knows %v: add what is new", names, known)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(text))[:16]; got != want[name] {
			t.Errorf("%s has changed (%s, it was %q): databases that have applied it stay as they are; write another migration", name, got, want[name])
		}
	}
}
