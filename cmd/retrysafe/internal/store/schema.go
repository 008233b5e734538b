package store

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
	// Migrate creates or updates the tables, and grants the roles what they need. It returns the names of the migrations
	// that it has applied.
	Migrate(ctx context.Context, roles Roles) (applied []string, err error)
	// Version returns the version that is there and the newest that this program knows, and an error if it cannot work
	// with the one that is there.
	Version(ctx context.Context) (applied, newest int, err error)
	// Warnings says which services can do more than Migrate has granted them.
	Warnings(ctx context.Context) (lines []string, err error)
	// Script returns what Migrate executes, for the database's own client.
	Script(roles Roles) (string, error)
}

// Roles are names of roles, each of which may be empty.
type Roles struct {
	Owner   string // owns the tables; of Script only
	Proxy   string // uses the tables
	Service string // calls the functions
}

// Label implements Schema.
func (p *Postgres) Label() string { return "schema " + p.Schema }

// Migrate implements Schema.
func (p *Postgres) Migrate(ctx context.Context, roles Roles) (applied []string, err error) {
	return applied, p.with(ctx, func(pool *pgxpool.Pool) error {
		all, err := pgstore.Migrate(ctx, pool, pgstore.MigrateOptions{
			Schema: p.Schema, Role: roles.Proxy, ServiceRole: roles.Service,
		})
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
func (p *Postgres) Script(roles Roles) (string, error) {
	return pgstore.Script(pgstore.ScriptOptions{
		Schema: p.Schema, Owner: roles.Owner, Role: roles.Proxy, ServiceRole: roles.Service,
	})
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
func (m *MySQL) Migrate(ctx context.Context, roles Roles) (applied []string, err error) {
	db, err := m.Connect()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	all, err := mysqlstore.Migrate(ctx, db, mysqlstore.MigrateOptions{Role: roles.Proxy, ServiceRole: roles.Service})
	for _, migration := range all {
		applied = append(applied, migration.Name)
	}
	if err != nil {
		err = m.Explain(err)
	}
	return applied, err
}

// Warnings implements Schema.
func (p *Postgres) Warnings(ctx context.Context) (lines []string, err error) {
	return lines, p.with(ctx, func(pool *pgxpool.Pool) error {
		wide, err := pgstore.WideRights(ctx, pool, p.Schema)
		for _, role := range wide {
			lines = append(lines, "role "+role+" can read the answers and leases of all services; name it with --service-role to "+
				"take its own rights back, and REVOKE what it has through another role or PUBLIC, or as a superuser")
		}
		return err
	})
}

// Warnings implements Schema.
func (m *MySQL) Warnings(ctx context.Context) (lines []string, err error) {
	db, err := m.Connect()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	wide, err := mysqlstore.WideRights(ctx, db, "")
	for _, account := range wide {
		lines = append(lines, account+" can read the answers and leases of all services by another grant; take that back, "+
			"or give Retrysafe a database of its own on this server")
	}
	if err != nil {
		err = m.Explain(err)
	}
	return lines, err
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
func (m *MySQL) Script(roles Roles) (string, error) {
	if roles.Owner != "" {
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
	if roles.Proxy+roles.Service != "" {
		script.WriteString("DELIMITER ;\n")
	}
	if roles.Proxy != "" {
		grants, err := mysqlstore.Grants(m.config.DBName, roles.Proxy)
		if err != nil {
			return "", err
		}
		script.WriteString(grants)
	}
	if roles.Service != "" {
		grants, err := mysqlstore.ServiceGrants(m.config.DBName, roles.Service)
		if err != nil {
			return "", err
		}
		script.WriteString(grants)
	}
	return script.String(), nil
}
