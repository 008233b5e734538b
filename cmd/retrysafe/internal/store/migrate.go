package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// MigrateCmd has a command for each thing to do with a schema.
type MigrateCmd struct {
	Up     migrateUp     `cmd:"" help:"Create or update the schema, or create the bucket or table. Safe to run repeatedly and concurrently."`
	Status migrateStatus `cmd:"" help:"Show the version of the schema. The exit status is 0 if it is the newest, otherwise 1."`
	Print  migratePrint  `cmd:"" help:"Print the SQL that creates the schema, for psql. Needs no connection."`
}

// Help shows the usual ways.
func (MigrateCmd) Help() string {
	return `A database needs a schema before a proxy or a program can store keys there, NATS a bucket, DynamoDB a table.
Redis needs nothing, and SQLite files are migrated when they are opened.

Examples:

    # the schema belongs to owner; the proxy uses the role app, which can neither create nor drop tables
    retrysafe migrate up --store postgres://owner@db/shop --role app
    retrysafe migrate status --store postgres://app@db/shop

    # the same as SQL, to read before it runs
    retrysafe migrate print --role app > retrysafe.sql
    psql -v ON_ERROR_STOP=1 -f retrysafe.sql postgres://owner@db/shop

    # a service in any language calls the functions of the schema as the role shop, which reads and writes no table
    retrysafe migrate up --store postgres://owner@db/shop --role app --service-role shop

    # a bucket on three servers
    retrysafe migrate up --store 'nats://nats:4222/payments?replicas=3'`
}

// schemaFlags say where the schema is.
type schemaFlags struct {
	Store  string `required:"" env:"RETRYSAFE_STORE" placeholder:"URL" help:"The URL of the store, such as postgres://USER@HOST/DATABASE."`
	Schema string `placeholder:"NAME" help:"Name of the schema. Default: the URL's schema=NAME, otherwise retrysafe."`
}

type migrateUp struct {
	schemaFlags
	Role        string `placeholder:"NAME" help:"Grant this existing role what a proxy needs. It can neither create nor drop tables."`
	ServiceRole string `placeholder:"NAME" help:"Grant this existing role what a service needs that calls the SQL functions. It can read and write no table."`
}

// Run creates or updates the schema, or makes what another store needs.
func (c migrateUp) Run(s *cli.Streams) error {
	roles := Roles{Proxy: c.Role, Service: c.ServiceRole}
	if err := distinct(roles); err != nil {
		return err
	}
	return c.in(s, roles != Roles{}, func(ctx context.Context, schema Schema) error {
		applied, err := schema.Migrate(ctx, roles)
		if err != nil {
			return err
		}
		for _, name := range applied {
			fmt.Fprintf(s.Out, "%s: applied %s\n", schema.Label(), name)
		}
		version, _, err := schema.Version(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "%s is up to date: version %d\n", schema.Label(), version)
		if c.Role != "" {
			fmt.Fprintf(s.Out, "%s: role %s has what a proxy needs\n", schema.Label(), c.Role)
		}
		if c.ServiceRole != "" {
			fmt.Fprintf(s.Out, "%s: role %s may call the functions\n", schema.Label(), c.ServiceRole)
		}
		warnings, err := schema.Warnings(ctx)
		for _, w := range warnings {
			fmt.Fprintf(s.Err, "warning: %s: %s\n", schema.Label(), w)
		}
		return err
	}, Place.Prepare)
}

type migrateStatus struct{ schemaFlags }

// Run compares versions, or opens a store that has none.
func (c migrateStatus) Run(s *cli.Streams) error {
	return c.in(s, false, func(ctx context.Context, schema Schema) error {
		applied, newest, err := schema.Version(ctx)
		if newest > 0 {
			fmt.Fprintf(s.Out, "%s: version %d applied, this program needs %d\n", schema.Label(), applied, newest)
		}
		return err
	}, func(place Place, ctx context.Context) ([]string, error) {
		_, closeStore, err := place.Open(ctx)
		if err == nil {
			err = closeStore()
		}
		return nil, err
	})
}

// in calls do for a store with a schema, and otherwise, which returns lines to print, for one that is elsewhere on a
// server.
func (f schemaFlags) in(s *cli.Streams, hasRole bool, do func(context.Context, Schema) error,
	otherwise func(Place, context.Context) ([]string, error),
) error {
	ref, err := f.ref()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if schema, ok := ref.Place.(Schema); ok {
		return do(ctx, schema)
	}
	if f.Schema != "" || hasRole {
		return cli.Refusef("--schema, --role and --service-role are for databases; %s has no such thing", ref.Name)
	}
	if ref.Place == nil {
		_, err := fmt.Fprintf(s.Out, "%s migrates itself when it is opened: there is nothing to do\n", ref.Name)
		return err
	}
	lines, err := otherwise(ref.Place, ctx)
	for _, line := range lines {
		fmt.Fprintln(s.Out, line)
	}
	if err == nil {
		_, err = fmt.Fprintf(s.Out, "store %s has what it needs\n", ref.Name)
	}
	return err
}

// ref is the store, with --schema in place of the URL's if it has one.
func (f schemaFlags) ref() (Ref, error) {
	ref, err := Parse(f.Store)
	if _, ok := ref.Place.(Schema); err != nil || f.Schema == "" || !ok {
		return ref, err
	}
	return ref.Place.Beside(f.Schema)
}

type migratePrint struct {
	Store           string `env:"RETRYSAFE_STORE" placeholder:"URL" help:"Name of the schema from the URL's schema=NAME."`
	Schema          string `placeholder:"NAME" help:"Name of the schema. Default: the URL's, otherwise retrysafe."`
	Role            string `placeholder:"NAME" help:"Grant this role what a proxy needs. It can neither create nor drop tables."`
	ServiceRole     string `placeholder:"NAME" help:"Grant this role what a service needs that calls the SQL functions. It can read and write no table."`
	MaintenanceRole string `placeholder:"NAME" help:"Owner of the schema. It migrates, and drops the partitions of past days."`
}

// Run prints the script.
func (c migratePrint) Run(s *cli.Streams) error {
	roles := Roles{Owner: c.MaintenanceRole, Proxy: c.Role, Service: c.ServiceRole}
	if err := distinct(roles); err != nil {
		return err
	}
	ref, err := schemaFlags{Store: cmp.Or(c.Store, "postgres://"), Schema: c.Schema}.ref()
	if err != nil {
		return err
	}
	schema, ok := ref.Place.(Schema)
	if !ok {
		return cli.Refusef("%s has no schema to print: it needs nothing, or run retrysafe migrate up", ref.Name)
	}
	script, err := schema.Script(roles)
	if err != nil {
		return cli.Refuse(err)
	}
	_, err = fmt.Fprint(s.Out, script)
	return err
}

// distinct refuses a role that would be granted what it has already.
func distinct(r Roles) error {
	switch {
	case r.Owner != "" && r.Owner == r.Proxy:
		return cli.Refuse(errors.New("--role and --maintenance-role are the same: the owner of the tables needs no " +
			"grants; leave --role out"))
	case r.Owner != "" && r.Owner == r.Service:
		return cli.Refuse(errors.New("--service-role and --maintenance-role are the same: the owner of the functions " +
			"may call them; leave --service-role out, or let the service have a role of its own"))
	case r.Proxy != "" && r.Proxy == r.Service:
		return cli.Refuse(errors.New("--service-role and --role are the same: a proxy's role may call the functions; " +
			"leave --service-role out, or let the service have a role of its own"))
	}
	return nil
}
