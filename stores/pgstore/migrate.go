package pgstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// MigrateOptions of Migrate. MigrateOptions{} works.
type MigrateOptions struct {
	// Schema to make or to bring up to date. Default "retrysafe".
	Schema string
}

// Migration is one step of the schema's history.
type Migration struct {
	Version int
	Name    string
	SQL     string
}

// Migrations returns the statements that bring the schema up to date, from the first on, for people who want to read or
// apply them by hand.
func Migrations(schema string) ([]Migration, error) {
	if schema == "" {
		schema = defaultSchema
	}
	if err := checkSchema(schema); err != nil {
		return nil, err
	}
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var all []Migration
	for i, name := range names {
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		name = strings.TrimSuffix(strings.TrimPrefix(name, "migrations/"), ".sql")
		all = append(all, Migration{Version: i + 1, Name: name, SQL: inSchema(string(text), schema)})
	}
	return all, nil
}

func newestVersion() int {
	names, _ := fs.Glob(migrationFiles, "migrations/*.sql")
	return len(names)
}

// Migrate makes the schema, or brings it up to date, and makes the partitions of the next days. It may be run again, and from many
// processes at once; all of it happens in one transaction. It needs the right to create in the database: see Grants for
// what the role of a Store needs.
//
// It returns the versions that it has applied, and an error that is ErrNewerSchema if the schema is newer than this
// version of the package.
func Migrate(ctx context.Context, pool *pgxpool.Pool, o MigrateOptions) (applied []Migration, err error) {
	all, err := Migrations(o.Schema)
	if err != nil {
		return nil, err
	}
	if o.Schema == "" {
		o.Schema = defaultSchema
	}
	// Who waits for another must then see what that one has done, whatever isolation is the database's default.
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		applied, err = migrate(ctx, tx, o.Schema, all)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("migrate schema %q: %w", o.Schema, err)
	}
	return applied, nil
}

func migrate(ctx context.Context, tx pgx.Tx, schema string, all []Migration) ([]Migration, error) {
	if err := run(ctx, tx, prepareSQL(schema)); err != nil {
		return nil, err
	}
	version, err := schemaVersion(ctx, tx, schema)
	if err != nil {
		return nil, err
	}
	if version > len(all) {
		return nil, fmt.Errorf("%w: it has version %d, and this version knows up to %d", ErrNewerSchema, version, len(all))
	}
	for _, m := range all[version:] {
		if err := run(ctx, tx, m.SQL); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		mark := inSchema("INSERT INTO {{schema}}.migrations (version, name) VALUES ($1, $2)", schema)
		if _, err := tx.Exec(ctx, mark, m.Version, m.Name); err != nil {
			return nil, explain(err)
		}
	}
	_, err = tx.Exec(ctx, newStatements(schema).addDays, daysAhead)
	return all[version:], explain(err)
}

// run executes several statements at once.
func run(ctx context.Context, tx pgx.Tx, text string) error {
	_, err := tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol)
	return err
}

// queryer is a pool, a connection or a transaction.
type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// SchemaVersion returns the number of the last migration that has been applied to the schema, 0 if there was none, and
// the number of the newest that this version of the package knows.
func SchemaVersion(ctx context.Context, pool *pgxpool.Pool, schema string) (applied, newest int, err error) {
	if schema == "" {
		schema = defaultSchema
	}
	if err := checkSchema(schema); err != nil {
		return 0, 0, err
	}
	applied, err = schemaVersion(ctx, pool, schema)
	return applied, newestVersion(), err
}

func schemaVersion(ctx context.Context, q queryer, schema string) (version int, err error) {
	err = q.QueryRow(ctx, inSchema("SELECT coalesce(max(version), 0) FROM {{schema}}.migrations", schema)).Scan(&version)
	switch sqlState(err) {
	case undefinedTable, invalidSchemaName:
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("pgstore: read the version of schema %q: %w", schema, explain(err))
	}
	return version, nil
}
