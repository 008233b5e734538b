package outboxcmd

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/outbox"
)

// outboxRef is an outbox in a database that has not been opened.
type outboxRef struct {
	store   store.Ref
	options outbox.Options
}

// ref reads the flags. It opens nothing.
func (f storeFlags) ref() (outboxRef, error) {
	ref := outboxRef{options: outbox.Options{Table: f.Table, Schema: f.Schema}}
	var err error
	if ref.store, err = store.Parse(f.Store); err != nil {
		return ref, err
	}
	switch s := ref.store; {
	case s.Memory:
		return ref, cli.Refusef("an outbox is in a database, not in memory:")
	case s.Place != nil && s.Postgres == nil && s.MySQL == nil:
		return ref, cli.Refusef("store %s: an outbox is in the database that your program writes to: PostgreSQL, MySQL, "+
			"MariaDB or SQLite", s.Name)
	}
	if p := ref.store.Postgres; p != nil && f.Schema == "" {
		ref.options.Schema = p.Param("schema")
	}
	if _, err := outbox.New(nil, ref.dialect(), ref.options); err != nil {
		return ref, cli.Refuse(err)
	}
	return ref, nil
}

func (r outboxRef) dialect() outbox.Dialect {
	switch {
	case r.store.Postgres != nil:
		return outbox.PostgreSQL
	case r.store.MySQL != nil:
		return outbox.MySQL
	}
	return outbox.SQLite
}

// open opens the database, and returns what closes it.
func (r outboxRef) open(ctx context.Context) (*outbox.Outbox, func(), error) {
	db, closeDB, err := r.openDB(ctx)
	if err != nil {
		return nil, nil, err
	}
	box, err := outbox.New(db, r.dialect(), r.options)
	if err != nil {
		closeDB()
		return nil, nil, err
	}
	return box, closeDB, nil
}

func (r outboxRef) openDB(ctx context.Context) (*sql.DB, func(), error) {
	if p := r.store.Postgres; p != nil {
		pool, err := p.Connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		db := stdlib.OpenDBFromPool(pool)
		return db, func() {
			_ = db.Close() // nothing is left to be written
			pool.Close()
		}, nil
	}
	if m := r.store.MySQL; m != nil {
		db, err := m.Connect()
		return db, func() { _ = db.Close() }, err
	}
	if _, err := os.Stat(r.store.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, cli.Refusef("store %s: there is no such file; an outbox is in the database that your "+
			"program writes to", r.store.Path)
	}
	path, err := filepath.Abs(r.store.Path)
	if err != nil {
		return nil, nil, err
	}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "_txlock=immediate&_pragma=busy_timeout(10000)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, nil, fmt.Errorf("store %s: %w", r.store.Name, err)
	}
	return db, func() { _ = db.Close() }, nil
}

// explain says what to do about an error of the database.
func (r outboxRef) explain(err error) error {
	told := new(untouched)
	switch {
	case err == nil, errors.As(err, &told):
		return err
	case lacksTable(err):
		return fmt.Errorf("store %s has no outbox %s: name its --table or --schema, or make it with: retrysafe "+
			"outbox migrate",
			r.store.Name, r.table())
	case r.store.Postgres != nil:
		return r.store.Postgres.Explain(err)
	case r.store.MySQL != nil:
		return r.store.MySQL.Explain(err)
	}
	return fmt.Errorf("store %s: %w", r.store.Name, err)
}

// lacksTable reports whether the database says that the table does not exist.
func lacksTable(err error) bool {
	var (
		postgres *pgconn.PgError
		maria    *mysql.MySQLError
	)
	return errors.As(err, &postgres) && postgres.Code == "42P01" || errors.As(err, &maria) && maria.Number == 1146 ||
		strings.Contains(err.Error(), "no such table")
}

func (r outboxRef) table() string {
	if r.options.Schema != "" {
		return r.options.Schema + "." + r.options.Table
	}
	return r.options.Table
}
