package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// availableStores is what --store understands in this build.
const availableStores = `a path (a SQLite file, created if missing), sqlite:PATH, sqlite:///DIRECTORY/FILE, ` +
	`postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, redis://HOST (rediss: with TLS), nats://HOST/BUCKET, dynamodb://TABLE, ` +
	`shards:?NAME=URL&NAME=URL, move:STAGE?from=URL&to=URL, ` +
	`memory: (forgotten when the process ends)`

// Ref is a store that has not been opened. Memory, Path or Place says where it is.
type Ref struct {
	Name     string // to print: without passwords
	URL      string // as it was given, with passwords
	Memory   bool
	Path     string    // of a SQLite file
	Place    Place     // on a server
	Postgres *Postgres // the Place, if it is in PostgreSQL
	MySQL    *MySQL    // the Place, if it is in MySQL or MariaDB
}

// Place is where a server keeps the records of one store: a schema, a table, a bucket, or keys with a common prefix.
type Place interface {
	// Open opens the store, and returns what closes it.
	Open(ctx context.Context) (retrysafe.Store, func() error, error)
	// Prepare makes what the store needs and the server lacks, and returns a line about each thing that it has made.
	Prepare(ctx context.Context) (made []string, err error)
	// Beside returns an empty place of this name on the same server. A name has lower-case letters, digits and _.
	Beside(name string) (Ref, error)
	// Drop deletes the place and everything in it.
	Drop() error
}

// Parse reads a store's URL. It opens nothing.
func Parse(name string) (Ref, error) {
	scheme, rest, hasScheme := strings.Cut(name, ":")
	switch {
	case name == "":
		return Ref{}, cli.Refusef("the store has no name; supported: %s", availableStores)
	case name == "memory:":
		return Ref{Name: name, URL: name, Memory: true}, nil
	case !hasScheme || strings.ContainsAny(scheme, `/\.`) || len(scheme) == 1: // as in C:\keys.db
		return fileRef(name)
	case scheme == "sqlite":
		return sqliteRef(rest)
	case scheme == "postgres" || scheme == "postgresql":
		p, err := parsePostgres(name)
		if err != nil {
			return Ref{}, err
		}
		return p.ref(), nil
	case scheme == "mysql" || scheme == "mariadb":
		return parseMySQL(name)
	case scheme == "redis" || scheme == "rediss" || scheme == "valkey" || scheme == "valkeys":
		return parseRedis(name)
	case scheme == "dynamodb":
		return parseDynamoDB(name)
	case scheme == "nats" || scheme == "tls":
		return parseNATS(name)
	case scheme == "shards" || scheme == "move":
		return parseSharded(scheme, rest)
	}
	return Ref{}, cli.Refusef("unsupported store scheme %q; supported: %s", scheme, availableStores)
}

// sqliteRef reads what follows "sqlite:": a path, or // and a path from the root. As a URL has it, sqlite://keys.db
// names a host; and some tools write sqlite:///keys.db for a file in the working directory. Both are refused.
func sqliteRef(rest string) (Ref, error) {
	path, isURL := strings.CutPrefix(rest, "//")
	directory, file := filepath.Split(filepath.Clean(path))
	switch {
	case !isURL || path == "":
		return fileRef(strings.TrimPrefix(rest, "//"))
	case !strings.HasPrefix(path, "/"):
		return Ref{}, cli.Refusef("store sqlite:%s: in a URL, what follows // is a host; write sqlite:%s for a file in the "+
			"working directory, or sqlite:///DIRECTORY/FILE", rest, path)
	case directory == "/":
		return Ref{}, cli.Refusef("store sqlite:%s can be read in two ways; write sqlite:%s for a file in the "+
			"working directory, "+
			"or sqlite:/%s for one in the root directory", rest, file, file)
	}
	return fileRef(path)
}

// fileRef checks what can be said about a path before SQLite sees it.
func fileRef(path string) (Ref, error) {
	if path == "" {
		return Ref{}, cli.Refusef("the store has no name; supported: %s", availableStores)
	}
	directory := filepath.Dir(path)
	info, err := os.Stat(directory)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Ref{}, cli.Refusef("store %s: the directory %s does not exist; create it first", path, directory)
	case err != nil:
		return Ref{}, cli.Refusef("store %s: %w", path, err)
	case !info.IsDir():
		return Ref{}, cli.Refusef("store %s: %s is not a directory", path, directory)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return Ref{}, cli.Refusef("store %s is a directory; name a file in it", path)
	}
	return Ref{Name: path, URL: path, Path: path}, nil
}

// Open opens the store, and returns what closes it.
func (r Ref) Open(ctx context.Context) (retrysafe.Store, func() error, error) {
	switch {
	case r.Memory:
		return memstore.New(memstore.Options{}), func() error { return nil }, nil
	case r.Place != nil:
		return r.Place.Open(ctx)
	}
	s, err := sqlitestore.Open(r.Path, sqlitestore.Options{})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// CheckCompletion returns an error if a service could not complete keys of the store in transactions of its own: only
// PostgreSQL and MySQL have what that takes. Of shards, each must be one of these.
func (r Ref) CheckCompletion() error {
	if shards, ok := r.Place.(*Sharded); ok {
		for _, shard := range slices.Concat(shards.Old, shards.New) {
			if err := shard.Ref.CheckCompletion(); err != nil {
				return cli.Refusef("shard %s: %w", shard.Name, err)
			}
		}
		return nil
	}
	if r.Postgres == nil && r.MySQL == nil {
		return cli.Refusef("complete: upstream cannot work with the store %s, because a service cannot complete its keys in a "+
			"database transaction; write store: postgres://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE, the database "+
			"that has the service's own tables, or leave complete: upstream out", r.Name)
	}
	return nil
}

// Existing is Parse for a store that must exist already, outside of this process. inMemory is the error for one that
// is not.
func Existing(name, inMemory string) (Ref, error) {
	ref, err := Parse(name)
	if err != nil {
		return ref, err
	}
	if ref.Memory {
		return ref, cli.Refusef("%s", inMemory)
	}
	if _, err := os.Stat(ref.Path); ref.Path != "" && errors.Is(err, fs.ErrNotExist) {
		return ref, cli.Refusef("store %s: there is no such file", ref.Path)
	}
	return ref, nil
}
