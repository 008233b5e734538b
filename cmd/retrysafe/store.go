package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// availableStores is what --store understands in this build.
const availableStores = `a path (a SQLite file, made if missing), sqlite:PATH, sqlite:///DIRECTORY/FILE, postgres://USER@HOST/DATABASE, ` +
	`memory: (forgotten when the process ends)`

// storeRef says which store to open.
type storeRef struct {
	name     string // to print: without passwords
	memory   bool
	path     string       // of a SQLite file
	postgres *postgresRef // nil: something else
}

// parseStore reads a store's URL. It opens nothing.
func parseStore(name string) (storeRef, error) {
	scheme, rest, hasScheme := strings.Cut(name, ":")
	switch {
	case name == "":
		return storeRef{}, refusef("the store has no name; there are: %s", availableStores)
	case name == "memory:":
		return storeRef{name: name, memory: true}, nil
	case !hasScheme || strings.ContainsAny(scheme, `/\.`) || len(scheme) == 1: // as in C:\keys.db
		return fileRef(name)
	case scheme == "sqlite":
		return sqliteRef(rest)
	case scheme == "postgres" || scheme == "postgresql":
		p, err := parsePostgres(name)
		if err != nil {
			return storeRef{}, err
		}
		return storeRef{name: p.name, postgres: p}, nil
	}
	return storeRef{}, refusef("store %s:… is of a kind that this build does not have; it has: %s", scheme, availableStores)
}

// sqliteRef reads what follows "sqlite:": a path, or // and a path from the root. As a URL has it, sqlite://keys.db names
// a host; and some tools write sqlite:///keys.db for a file in the working directory. Both are refused.
func sqliteRef(rest string) (storeRef, error) {
	path, isURL := strings.CutPrefix(rest, "//")
	directory, file := filepath.Split(filepath.Clean(path))
	switch {
	case !isURL || path == "":
		return fileRef(strings.TrimPrefix(rest, "//"))
	case !strings.HasPrefix(path, "/"):
		return storeRef{}, refusef("store sqlite:%s: in a URL, what follows // is a host; write sqlite:%s for a file in the "+
			"working directory, or sqlite:///DIRECTORY/FILE", rest, path)
	case directory == "/":
		return storeRef{}, refusef("store sqlite:%s can be read in two ways; write sqlite:%s for a file in the working directory, "+
			"or sqlite:/%s for one in the root directory", rest, file, file)
	}
	return fileRef(path)
}

// fileRef checks what can be said about a path before SQLite sees it.
func fileRef(path string) (storeRef, error) {
	if path == "" {
		return storeRef{}, refusef("the store has no name; there are: %s", availableStores)
	}
	directory := filepath.Dir(path)
	info, err := os.Stat(directory)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return storeRef{}, refusef("store %s: the directory %s does not exist; make it first", path, directory)
	case err != nil:
		return storeRef{}, refusef("store %s: %w", path, err)
	case !info.IsDir():
		return storeRef{}, refusef("store %s: %s is no directory", path, directory)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return storeRef{}, refusef("store %s is a directory; name a file in it", path)
	}
	return storeRef{name: path, path: path}, nil
}

// open opens the store, and returns what closes it.
func (r storeRef) open(ctx context.Context) (retrysafe.Store, func() error, error) {
	switch {
	case r.memory:
		return memstore.New(memstore.Options{}), func() error { return nil }, nil
	case r.postgres != nil:
		return r.postgres.open(ctx)
	}
	s, err := sqlitestore.Open(r.path, sqlitestore.Options{})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}
