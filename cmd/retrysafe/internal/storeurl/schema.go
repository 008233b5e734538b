package storeurl

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/stores/mysqlstore"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// Schema is a Place whose tables have versions.
type Schema interface {
	Place
	// Label names it in messages, as in "schema retrysafe".
	Label() string
	// Migrate creates or updates the tables, and grants role, unless it is empty, what a proxy needs. It returns the
	// names of the migrations that it has applied.
	Migrate(ctx context.Context, role string) (applied []string, err error)
	// Version returns the version that is there and the newest that this program knows, and an error if it cannot work
	// with the one that is there.
	Version(ctx context.Context) (applied, newest int, err error)
	// Script returns what Migrate executes, for the database's own client. owner, unless it is empty, owns the tables.
	Script(owner, role string) (string, error)
}

// Label implements Schema.
func (p *Postgres) Label() string { return "schema " + p.Schema }

// Migrate implements Schema.
func (p *Postgres) Migrate(ctx context.Context, role string) (applied []string, err error) {
	return applied, p.with(ctx, func(pool *pgxpool.Pool) error {
		all, err := pgstore.Migrate(ctx, pool, pgstore.MigrateOptions{Schema: p.Schema, Role: role})
		for _, m := range all {
			applied = append(applied, m.Name)
		}
		return err
	})
}

// Version implements Schema.
func (p *Postgres) Version(ctx context.Context) (applied, newest int, err error) {
	err = p.with(ctx, func(pool *pgxpool.Pool) error {
		if applied, newest, err = pgstore.SchemaVersion(ctx, pool, p.Schema); err != nil {
			return err
		}
		return pgstore.CheckSchema(ctx, pool, p.Schema)
	})
	return applied, newest, err
}

// Script implements Schema.
func (p *Postgres) Script(owner, role string) (string, error) {
	return pgstore.Script(pgstore.ScriptOptions{Schema: p.Schema, Owner: owner, Role: role})
}

// with calls do with a pool, and explains its error.
func (p *Postgres) with(ctx context.Context, do func(*pgxpool.Pool) error) error {
	pool, err := p.Connect(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := do(pool); err != nil {
		return p.Explain(err)
	}
	return nil
}

// Label implements Schema.
func (m *MySQL) Label() string { return "database " + m.config.DBName }

// Migrate implements Schema.
func (m *MySQL) Migrate(ctx context.Context, role string) (applied []string, err error) {
	db, err := m.Connect()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	all, err := mysqlstore.Migrate(ctx, db, mysqlstore.MigrateOptions{Role: role})
	for _, migration := range all {
		applied = append(applied, migration.Name)
	}
	if err != nil {
		err = m.Explain(err)
	}
	return applied, err
}

// Version implements Schema.
func (m *MySQL) Version(ctx context.Context) (applied, newest int, err error) {
	db, err := m.Connect()
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	if applied, newest, err = mysqlstore.SchemaVersion(ctx, db, ""); err == nil {
		err = mysqlstore.CheckSchema(ctx, db, "")
	}
	if err != nil {
		err = m.Explain(err)
	}
	return applied, newest, err
}

// Script implements Schema.
func (m *MySQL) Script(owner, role string) (string, error) {
	if owner != "" {
		return "", fmt.Errorf("in MySQL tables have no owner: leave --maintenance-role out")
	}
	migrations, err := mysqlstore.Migrations(m.config.DBName)
	if err != nil {
		return "", err
	}
	var script strings.Builder
	for _, migration := range migrations {
		script.WriteString(migration.SQL + "\n")
	}
	if role == "" {
		return script.String(), nil
	}
	grants, err := mysqlstore.Grants(m.config.DBName, role)
	script.WriteString("DELIMITER ;\n" + grants)
	return script.String(), err
}
