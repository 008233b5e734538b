package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// query names a statement: the file sql/NAME.sql.
type query string

func (q query) text() string {
	text, err := sqlFiles.ReadFile("sql/" + string(q) + ".sql")
	if err != nil {
		panic(err) // a query without its file: any test finds that
	}
	return string(text)
}

// runner runs statements: prepared ones on a connection of the store, or those of a user's transaction.
type runner interface {
	// exec returns the number of rows changed.
	exec(q query, args ...driver.Value) (int64, error)
	// first returns the first row, or nil if there is none.
	first(q query, args ...driver.Value) ([]driver.Value, error)
	// all calls f with each row.
	all(q query, f func(row []driver.Value) error, args ...driver.Value) error
}

// connRunner is a runner on one connection. It calls the driver itself: database/sql would double what a statement
// costs here. It is not safe for concurrent use, and must be used inside of sql.Conn.Raw.
type connRunner struct {
	conn     driver.Conn
	prepared map[query]*prepared
}

type prepared struct {
	stmt  driver.Stmt
	exec  driver.StmtExecContext
	query driver.StmtQueryContext
	args  []driver.NamedValue
}

func newConnRunner(driverConn any) (*connRunner, error) {
	conn, ok := driverConn.(driver.Conn)
	if !ok {
		return nil, fmt.Errorf("sqlitestore: the driver's connection %T is not a driver.Conn", driverConn)
	}
	return &connRunner{conn: conn, prepared: make(map[query]*prepared)}, nil
}

func (c *connRunner) exec(q query, args ...driver.Value) (int64, error) {
	p, err := c.prepare(q)
	if err != nil {
		return 0, err
	}
	res, err := p.exec.ExecContext(context.Background(), p.bind(args))
	clear(p.args) // the statement must not keep the caller's bytes
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (c *connRunner) first(q query, args ...driver.Value) ([]driver.Value, error) {
	var row []driver.Value
	err := c.each(q, args, func(rows driver.Rows) error {
		row = make([]driver.Value, len(rows.Columns()))
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			row = nil
			return nil
		}
		return err
	})
	return row, err
}

func (c *connRunner) all(q query, f func(row []driver.Value) error, args ...driver.Value) error {
	return c.each(q, args, func(rows driver.Rows) error {
		row := make([]driver.Value, len(rows.Columns()))
		for {
			err := rows.Next(row)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := f(row); err != nil {
				return err
			}
		}
	})
}

func (c *connRunner) each(q query, args []driver.Value, f func(driver.Rows) error) error {
	p, err := c.prepare(q)
	if err != nil {
		return err
	}
	rows, err := p.query.QueryContext(context.Background(), p.bind(args))
	clear(p.args)
	if err != nil {
		return err
	}
	return errors.Join(f(rows), rows.Close())
}

func (c *connRunner) prepare(q query) (*prepared, error) {
	if p, ok := c.prepared[q]; ok {
		return p, nil
	}
	return c.prepareText(q, q.text())
}

func (c *connRunner) prepareText(q query, text string) (*prepared, error) {
	stmt, err := c.conn.Prepare(text)
	if err != nil {
		return nil, fmt.Errorf("prepare %s.sql: %w", q, err)
	}
	p := &prepared{stmt: stmt}
	var canExec, canQuery bool
	p.exec, canExec = stmt.(driver.StmtExecContext)
	p.query, canQuery = stmt.(driver.StmtQueryContext)
	if !canExec || !canQuery {
		return nil, errors.Join(fmt.Errorf("sqlitestore: the driver's statement %T lacks ExecContext or QueryContext; "+
			"use another driver, such as modernc.org/sqlite", stmt), stmt.Close())
	}
	c.prepared[q] = p
	return p, nil
}

func (p *prepared) bind(args []driver.Value) []driver.NamedValue {
	p.args = p.args[:0]
	for i, v := range args {
		p.args = append(p.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return p.args
}

func (c *connRunner) close() error {
	var errs []error
	for _, p := range c.prepared {
		errs = append(errs, p.stmt.Close())
	}
	clear(c.prepared)
	return errors.Join(errs...)
}

// txRunner is a runner inside a user's transaction. It fails once that has ended.
type txRunner struct {
	tx  *sql.Tx
	ctx context.Context
}

func (t txRunner) exec(q query, args ...driver.Value) (int64, error) {
	res, err := t.tx.ExecContext(t.ctx, q.text(), anys(args)...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t txRunner) first(q query, args ...driver.Value) ([]driver.Value, error) {
	var first []driver.Value
	err := t.all(q, func(row []driver.Value) error {
		if first == nil {
			first = append(first, row...)
		}
		return nil
	}, args...)
	return first, err
}

func (t txRunner) all(q query, f func(row []driver.Value) error, args ...driver.Value) error {
	rows, err := t.tx.QueryContext(t.ctx, q.text(), anys(args)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return eachRow(rows, f)
}

// eachRow calls f with each of rows, and does not close them.
func eachRow(rows *sql.Rows, f func(row []driver.Value) error) error {
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	row, values, pointers := make([]driver.Value, len(columns)), make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		pointers[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			return err
		}
		for i, v := range values {
			row[i] = v
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

func anys(args []driver.Value) []any {
	out := make([]any, len(args))
	for i, v := range args {
		out[i] = v
	}
	return out
}
