package storekit

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Migration is one step of a schema's history.
type Migration struct {
	Version int
	Name    string
	SQL     string
	// Oldest is the schema version that a program must know at least to work with a schema of this Version.
	Oldest int
}

// oldestMark is the line of a migration that says what its Oldest is.
var oldestMark = regexp.MustCompile(`(?m)^-- oldest: (\d+)$`)

// Migrations reads the files migrations/*.sql in the order of their names. Those whose names begin with a number make a
// version each, the first one version 1. What other files have is replaced as a whole by each version, such as the
// functions: the last migration ends with them.
func Migrations(files fs.FS) ([]Migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var all []Migration
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		if first := path.Base(name)[0]; first < '0' || first > '9' { // behind all that begin with a digit
			all[len(all)-1].SQL += "\n" + string(text)
			continue
		}
		mark := oldestMark.FindSubmatch(text)
		if mark == nil {
			return nil, fmt.Errorf("%s does not say which programs may work with it", name)
		}
		oldest, err := strconv.Atoi(string(mark[1]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, Migration{
			Version: len(all) + 1, Name: strings.TrimSuffix(path.Base(name), ".sql"), SQL: string(text), Oldest: oldest,
		})
	}
	return all, nil
}

// SchemaVersion is what a database says of its schema.
type SchemaVersion struct {
	Applied int // the last migration; 0: none
	Oldest  int // Migration.Oldest of the last migration; 0: not known
}

// Fits reports whether a program that knows versions up to known can work with the schema.
func (v SchemaVersion) Fits(known int) bool {
	return v.Applied == known || v.Applied > known && v.Oldest > 0 && v.Oldest <= known
}
