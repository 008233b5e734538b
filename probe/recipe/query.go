package recipe

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver of openFile

	"github.com/retrysafe/retrysafe/probe"
)

// sqlCounter counts by asking a database, which it cannot change.
type sqlCounter struct {
	db    *sql.DB
	query string
}

var _ probe.Counter = (*sqlCounter)(nil)

// open connects and asks once, so that a wrong query is known before anything is created.
func (s *sqlSettings) open(ctx context.Context, dir string) (*sqlCounter, error) {
	db, err := s.connect(dir)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	c := &sqlCounter{db, s.query}
	if _, err := c.Count(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return c, nil
}

// connect opens the database. SQLite is opened for reading only, so that a mistake in the query cannot change it.
func (s *sqlSettings) connect(dir string) (*sql.DB, error) {
	if isPostgres(s.url) {
		config, err := pgx.ParseConfig(s.url)
		if err != nil {
			return nil, errors.New("count.sql: the URL is malformed") // err may show the password
		}
		// for poolers, which know nothing of prepared statements
		config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		return stdlib.OpenDB(*config), nil
	}
	name, err := s.file(dir)
	if err != nil {
		return nil, err
	}
	if name, err = filepath.Abs(name); err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(name), RawQuery: "mode=ro&_pragma=busy_timeout(5000)"}
	return sql.Open("sqlite", dsn.String())
}

// Count implements probe.Counter. A sum over nothing is NULL in SQL, and 0 here.
func (c *sqlCounter) Count(ctx context.Context) (n int64, err error) {
	tx, err := c.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return 0, fmt.Errorf("count.sql: %w", explained(err))
	}
	defer tx.Rollback()
	var found sql.NullInt64
	if err := tx.QueryRowContext(ctx, c.query).Scan(&found); err != nil {
		return 0, fmt.Errorf("count.sql: %w; the query must return one row with one whole number", explained(err))
	}
	return found.Int64, nil
}

// explained returns a server's error without what pgx adds to it: where it connects to, and as whom.
func explained(err error) error {
	if refused := new(pgconn.PgError); errors.As(err, &refused) {
		return errors.New(refused.Message)
	}
	return err
}

// Close implements io.Closer.
func (c *sqlCounter) Close() error { return c.db.Close() }
