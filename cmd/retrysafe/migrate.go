package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/storeurl"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// migrateCmd has a command for each thing to do with a schema.
type migrateCmd struct {
	Up     migrateUp     `cmd:"" help:"Create or update the schema. Safe to run repeatedly and concurrently."`
	Status migrateStatus `cmd:"" help:"Show the version of the schema. The exit status is 0 if it is the newest, otherwise 1."`
	Print  migratePrint  `cmd:"" help:"Print the SQL that creates the schema, for psql. Needs no connection."`
}

// Help shows the usual ways.
func (migrateCmd) Help() string {
	return `A PostgreSQL database needs a schema before a proxy or a program can store keys there. SQLite files need none:
they are migrated when they are opened.

Examples:

    # the schema belongs to owner; the proxy uses the role app, which can neither create nor drop tables
    retrysafe migrate up --store postgres://owner@db/shop --role app
    retrysafe migrate status --store postgres://app@db/shop

    # the same as SQL, to read before it runs
    retrysafe migrate print --role app > retrysafe.sql
    psql -v ON_ERROR_STOP=1 -f retrysafe.sql postgres://owner@db/shop`
}

// schemaFlags say where the schema is.
type schemaFlags struct {
	Store  string `required:"" env:"RETRYSAFE_STORE" placeholder:"URL" help:"The database: postgres://USER@HOST/DATABASE."`
	Schema string `placeholder:"NAME" help:"Name of the schema. Default: the URL's schema=NAME, otherwise retrysafe."`
}

type migrateUp struct {
	schemaFlags
	Role string `placeholder:"NAME" help:"Grant this existing role what a proxy needs. It can neither create nor drop tables."`
}

// Run creates or updates the schema.
func (c migrateUp) Run(s *cli.Streams) error {
	return c.inDatabase(s, func(ctx context.Context, p *storeurl.Postgres, pool *pgxpool.Pool) error {
		applied, err := pgstore.Migrate(ctx, pool, pgstore.MigrateOptions{Schema: p.Schema, Role: c.Role})
		if err != nil {
			return p.Explain(err)
		}
		for _, m := range applied {
			fmt.Fprintf(s.Out, "schema %s: applied %s\n", p.Schema, m.Name)
		}
		version, _, err := pgstore.SchemaVersion(ctx, pool, p.Schema)
		if err != nil {
			return p.Explain(err)
		}
		fmt.Fprintf(s.Out, "schema %s is up to date: version %d\n", p.Schema, version)
		if c.Role != "" {
			fmt.Fprintf(s.Out, "schema %s: role %s has what a proxy needs\n", p.Schema, c.Role)
		}
		return nil
	})
}

type migrateStatus struct{ schemaFlags }

// Run compares versions.
func (c migrateStatus) Run(s *cli.Streams) error {
	return c.inDatabase(s, func(ctx context.Context, p *storeurl.Postgres, pool *pgxpool.Pool) error {
		applied, newest, err := pgstore.SchemaVersion(ctx, pool, p.Schema)
		if err != nil {
			return p.Explain(err)
		}
		fmt.Fprintf(s.Out, "schema %s: version %d applied, this program needs %d\n", p.Schema, applied, newest)
		if err := pgstore.CheckSchema(ctx, pool, p.Schema); err != nil {
			return p.Explain(err)
		}
		return nil
	})
}

// inDatabase calls do with a connection, unless the store migrates itself.
func (f schemaFlags) inDatabase(s *cli.Streams,
	do func(context.Context, *storeurl.Postgres, *pgxpool.Pool) error,
) error {
	ref, err := storeurl.Parse(f.Store)
	if err != nil {
		return err
	}
	p := ref.Postgres
	if p == nil {
		_, err := fmt.Fprintf(s.Out, "%s migrates itself when it is opened: there is nothing to do\n", ref.Name)
		return err
	}
	if f.Schema != "" {
		if p, err = p.WithSchema(f.Schema); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	pool, err := p.Connect(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	return do(ctx, p, pool)
}

type migratePrint struct {
	Store           string `env:"RETRYSAFE_STORE" placeholder:"URL" help:"Name of the schema from the URL's schema=NAME."`
	Schema          string `placeholder:"NAME" help:"Name of the schema. Default: the URL's, otherwise retrysafe."`
	Role            string `placeholder:"NAME" help:"Grant this role what a proxy needs. It can neither create nor drop tables."`
	MaintenanceRole string `placeholder:"NAME" help:"Owner of the schema. It migrates, and drops the partitions of past days."`
}

// Run prints the script.
func (c migratePrint) Run(s *cli.Streams) error {
	schema := c.Schema
	if c.Store != "" {
		ref, err := storeurl.Parse(c.Store)
		if err != nil {
			return err
		}
		if ref.Postgres == nil {
			_, err := fmt.Fprintf(s.Out, "-- %s migrates itself when it is opened: there is nothing to do\n", ref.Name)
			return err
		}
		if schema == "" {
			schema = ref.Postgres.Schema
		}
	}
	if c.Role != "" && c.Role == c.MaintenanceRole {
		return cli.Refuse(errors.New("--role and --maintenance-role are the same: the owner of the tables needs no " +
			"grants; leave --role out"))
	}
	script, err := pgstore.Script(pgstore.ScriptOptions{Schema: schema, Owner: c.MaintenanceRole, Role: c.Role})
	if err != nil {
		return cli.Refuse(err)
	}
	_, err = fmt.Fprint(s.Out, script)
	return err
}
