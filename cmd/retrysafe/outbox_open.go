package main

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

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe/outbox"
)

// outboxRef is an outbox in a database that has not been opened.
type outboxRef struct {
	store   storeRef
	options outbox.Options
}

// ref reads the flags. It opens nothing.
func (f outboxFlags) ref() (outboxRef, error) {
	ref := outboxRef{options: outbox.Options{Table: f.Table, Schema: f.Schema}}
	var err error
	if ref.store, err = parseStore(f.Store); err != nil {
		return ref, err
	}
	if ref.store.memory {
		return ref, refusef("an outbox is in a database, not in memory:")
	}
	if p := ref.store.postgres; p != nil && f.Schema == "" {
		ref.options.Schema = p.named("schema")
	}
	if _, err := outbox.New(nil, ref.dialect(), ref.options); err != nil {
		return ref, refusal{err}
	}
	return ref, nil
}

// named returns a parameter of the URL.
func (p *postgresRef) named(param string) string {
	_, query, _ := strings.Cut(p.url, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return ""
	}
	return params.Get(param)
}

func (r outboxRef) dialect() outbox.Dialect {
	if r.store.postgres != nil {
		return outbox.PostgreSQL
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
	if p := r.store.postgres; p != nil {
		pool, err := p.connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		db := stdlib.OpenDBFromPool(pool)
		return db, func() {
			_ = db.Close() // nothing is left to be written
			pool.Close()
		}, nil
	}
	if _, err := os.Stat(r.store.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, refusef("store %s: there is no such file; an outbox is in the database that your program writes to", r.store.path)
	}
	path, err := filepath.Abs(r.store.path)
	if err != nil {
		return nil, nil, err
	}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "_txlock=immediate&_pragma=busy_timeout(10000)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, nil, fmt.Errorf("store %s: %w", r.store.name, err)
	}
	return db, func() { _ = db.Close() }, nil
}

// explain says what to do about an error of the database.
func (r outboxRef) explain(err error) error {
	var server *pgconn.PgError
	told := new(untouched)
	switch {
	case err == nil, errors.As(err, &told):
		return err
	case errors.As(err, &server) && server.Code == "42P01", err != nil && strings.Contains(err.Error(), "no such table"):
		return fmt.Errorf("store %s has no outbox %s: name its --table or --schema, or make it with: retrysafe outbox migrate",
			r.store.name, r.table())
	case r.store.postgres != nil:
		return r.store.postgres.explain(err)
	}
	return fmt.Errorf("store %s: %w", r.store.name, err)
}

func (r outboxRef) table() string {
	if r.options.Schema != "" {
		return r.options.Schema + "." + r.options.Table
	}
	return r.options.Table
}
