package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// MigrateOptions of Migrate. MigrateOptions{} works.
type MigrateOptions struct {
	// Schema to make or to bring up to date. Default "retrysafe".
	Schema string
	// Role gets what a Store needs, in the same transaction: see Grants. It must exist. Default: no role gets anything.
	Role string
	// ServiceRole gets what a service needs that calls the SQL functions, in the same transaction: see ServiceGrants. It
	// must exist. Default: no role gets anything.
	ServiceRole string
}

// Migration is one step of the schema's history.
type Migration struct {
	Version int
	Name    string
	SQL     string
	// Oldest is the schema version that a program must know at least to work with a schema of this Version. Such
	// programs need not be stopped while it is applied, and a deployment can go back to them.
	Oldest int
}

// Migrations returns the statements that bring the schema up to date, from the first on, for people who want to read or
// apply them by hand.
func Migrations(schema string) ([]Migration, error) {
	schema, err := checkSchema(schema)
	if err != nil {
		return nil, err
	}
	files, err := storekit.Migrations(migrationFiles)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	var all []Migration
	for _, file := range files {
		m := Migration(file)
		m.SQL = inSchema(m.SQL, schema)
		all = append(all, m)
	}
	return all, nil
}

func newestVersion() int {
	files, _ := storekit.Migrations(migrationFiles)
	return len(files)
}

// Migrate makes the schema, or brings it up to date, and makes the partitions of the next days. It may be run again,
// and by many processes at once; all of it happens in one transaction, but for the index of a large table, which is
// made while claims go on (CREATE INDEX CONCURRENTLY). It needs the right to create in the database,
// and with MigrateOptions.Role, the rights of the schema's owner: see Grants for what the role of a Store needs.
//
// It returns the versions that it has applied, and an error that is ErrNewerSchema if the schema is newer than this
// version of the package can work with. One that is newer, and that it can work with, is left as it is.
func Migrate(ctx context.Context, pool *pgxpool.Pool, o MigrateOptions) (applied []Migration, err error) {
	if o.Schema, err = checkSchema(o.Schema); err != nil {
		return nil, err
	}
	all, err := Migrations(o.Schema)
	if err != nil {
		return nil, err
	}
	grants, err := allGrants(o.Schema, o.Role, o.ServiceRole)
	if err != nil {
		return nil, err
	}
	// A migration that has waited for another must see what that one has done, whatever the database's default
	// isolation.
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if applied, err = migrate(ctx, tx, o.Schema, all); err != nil || grants == "" {
			return err
		}
		return explain(run(ctx, tx, grants))
	})
	if err == nil {
		err = makeIndexes(ctx, pool, o.Schema)
	}
	if err != nil {
		return nil, fmt.Errorf("migrate schema %q: %w", o.Schema, err)
	}
	return applied, nil
}

// prepareSQL is what comes before the first migration.
func prepareSQL(schema string) string { return inSchema(sqlFile("prepare"), schema) }

func migrate(ctx context.Context, tx pgx.Tx, schema string, all []Migration) ([]Migration, error) {
	if err := run(ctx, tx, prepareSQL(schema)); err != nil {
		return nil, err
	}
	v, err := schemaVersion(ctx, tx, schema)
	if err != nil {
		return nil, err
	}
	if v.Applied > len(all) && !v.Fits(len(all)) {
		return nil, fmt.Errorf("%w: it has version %d, and this version knows up to %d", ErrNewerSchema, v.Applied, len(all))
	}
	all = all[min(v.Applied, len(all)):]
	for _, m := range all {
		if err := run(ctx, tx, m.SQL); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, explainMigration(err))
		}
		mark := inSchema("INSERT INTO {{schema}}.migrations (version, name, oldest) VALUES ($1, $2, $3)", schema)
		if _, err := tx.Exec(ctx, mark, m.Version, m.Name, m.Oldest); err != nil {
			return nil, explain(err)
		}
	}
	_, err = tx.Exec(ctx, newStatements(schema).addDays, daysAhead)
	return all, explainMigration(err)
}

// explainMigration is explain for statements that find the schema, and not what is to be in it.
func explainMigration(err error) error {
	switch sqlState(err) {
	case undefinedTable, undefinedColumn, undefinedFunction:
		return fmt.Errorf("%w; has an unreleased build made the schema? Its tables are others: drop the schema, with its "+
			"keys, or use another one", err)
	}
	return explain(err)
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
	if schema, err = checkSchema(schema); err != nil {
		return 0, 0, err
	}
	v, err := schemaVersion(ctx, pool, schema)
	return v.Applied, newestVersion(), err
}

// CheckSchema returns nil if this version of the package can work with the schema, an error that is ErrNoSchema if
// the schema is missing or too old, and one that is ErrNewerSchema if it is too new.
func CheckSchema(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	schema, err := checkSchema(schema)
	if err != nil {
		return err
	}
	return checkVersion(ctx, pool, schema, newestVersion())
}

// checkVersion compares the schema that is there with the newest version that a program knows.
func checkVersion(ctx context.Context, q queryer, schema string, known int) error {
	v, err := schemaVersion(ctx, q, schema)
	switch {
	case err != nil:
		return err
	case v.Applied < known:
		return fmt.Errorf("%w: schema %q has version %d, and this version needs %d; "+
			"run `retrysafe migrate up`, or pgstore.Migrate", ErrNoSchema, schema, v.Applied, known)
	case !v.Fits(known):
		return fmt.Errorf("%w: schema %q has version %d, and this version knows up to %d; use the newer version",
			ErrNewerSchema, schema, v.Applied, known)
	}
	return nil
}

func schemaVersion(ctx context.Context, q queryer, schema string) (v storekit.SchemaVersion, err error) {
	err = q.QueryRow(ctx, inSchema(sqlFile("version"), schema)).Scan(&v.Applied, &v.Oldest)
	switch sqlState(err) {
	case undefinedTable, invalidSchemaName:
		return storekit.SchemaVersion{}, nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return storekit.SchemaVersion{}, nil
	}
	if err != nil {
		return storekit.SchemaVersion{}, fmt.Errorf("pgstore: read the version of schema %q: %w", schema, explain(err))
	}
	return v, nil
}
