package outboxcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

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
	if _, err := outbox.New(nil, dialectOf(ref.store), ref.options); err != nil {
		return ref, cli.Refuse(err)
	}
	return ref, nil
}

// open opens the database, and returns what closes it.
func (r outboxRef) open(ctx context.Context) (*outbox.Outbox, func(), error) {
	db, err := openDB(ctx, r.store)
	if err != nil {
		return nil, nil, err
	}
	box, err := outbox.New(db.DB, dialectOf(r.store), r.options)
	if err != nil {
		db.close()
		return nil, nil, err
	}
	return box, db.close, nil
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
			r.store.Name, nameOf(r.options))
	}
	return explain(r.store, err)
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
