package sqlfunctions

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"testing"
)

// Migrations checks that no migration has changed that databases may have: the files that match pattern are those of
// want, by the beginnings of their SHA-256. A change of the schema is a new migration, and a change of the functions, which
// the last migration replaces, comes with one: their file stands in want with the number of migrations behind its name.
func Migrations(t *testing.T, files fs.FS, pattern string, want map[string]string) {
	t.Helper()
	names, err := fs.Glob(files, pattern)
	if err != nil {
		t.Fatal(err)
	}
	found, versions := map[string]string{}, 0
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		if first := path.Base(name)[0]; first >= '0' && first <= '9' {
			versions++
		} else {
			name = fmt.Sprintf("%s of version %d", name, versions)
		}
		found[name] = fmt.Sprintf("%x", sha256.Sum256(text))[:16]
	}
	for name, sum := range found {
		if sum != want[name] {
			t.Errorf("%s has changed (%s, it was %q): databases that have applied it stay as they are; write another migration",
				name, sum, want[name])
		}
	}
	if len(found) != len(want) {
		t.Errorf("the files are %v, and the test knows %v", slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(want)))
	}
}
