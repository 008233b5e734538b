package mysqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// MigrateOptions of Migrate. MigrateOptions{} works.
type MigrateOptions struct {
	// Database to make the tables in, or to bring them up to date. It must exist. Default: the one that the connections
	// of db have selected.
	Database string
	// Role gets what a Store needs: see Grants. It must exist. Default: no account gets anything.
	Role string
	// ServiceRole gets what a service needs that calls the procedures: see ServiceGrants. It must exist. Default: no
	// account gets anything.
	ServiceRole string
}

// Migration is one step of the schema's history.
type Migration struct {
	Version int
	Name    string
	// SQL is for the program mysql or mariadb: the statements end with //, after a line DELIMITER //. The last one records
	// the version.
	SQL string
	// Oldest is the schema version that a program must know at least to work with a schema of this Version. Such
	// programs need not be stopped while it is applied, and a deployment can go back to them.
	Oldest int
}

// Migrations returns the statements that bring the schema up to date, from the first on, for people who want to read or
// apply them by hand.
func Migrations(database string) ([]Migration, error) {
	if !databaseName.MatchString(database) {
		return nil, fmt.Errorf("mysqlstore: database %q: use up to 64 letters, digits, underscores, hyphens and dollar signs",
			database)
	}
	files, err := storekit.Migrations(migrationFiles)
	if err != nil {
		return nil, fmt.Errorf("mysqlstore: %w", err)
	}
	var all []Migration
	for _, file := range files {
		m := Migration(file)
		m.SQL = inDatabase(m.SQL, database)
		if m.Version == 1 {
			m.SQL = strings.Replace(m.SQL, delimiter, delimiter+inDatabase(sqlFile("prepare"), database)+"\n//\n\n", 1)
		}
		m.SQL += inDatabase(fmt.Sprintf("\nINSERT INTO {{migrations}} (version, name, oldest) VALUES (%d, '%s', %d)\n//\n",
			m.Version, m.Name, m.Oldest), database)
		all = append(all, m)
	}
	return all, nil
}

// delimiter is the line of a migration after which its statements begin.
const delimiter = "DELIMITER //\n"

// statements are the parts of a migration that are executed one by one.
func (m Migration) statements() (parts []string) {
	_, text, _ := strings.Cut(m.SQL, delimiter)
	for _, part := range strings.Split(text, "\n//\n") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

func newestVersion() int {
	files, _ := storekit.Migrations(migrationFiles)
	return len(files)
}

// migrationWait is how long a migration waits for another one.
const migrationWait = 5 * time.Minute

// Migrate makes the tables, or brings them up to date, and makes the partitions of the next days. It may be run again,
// and by many processes at once: one migrates at a time. It needs the rights CREATE, ALTER, DROP, INDEX, CREATE VIEW,
// CREATE ROUTINE, ALTER ROUTINE and EXECUTE in the database; see Grants for what the account of a Store needs.
//
// Unlike PostgreSQL, the server commits each statement that changes a table. A migration that fails in the middle
// leaves what it has done, and running it again continues.
//
// It returns the versions that it has applied, and an error that is ErrNewerSchema if the schema is newer than this
// version of the package can work with. One that is newer, and that it can work with, is left as it is.
func Migrate(ctx context.Context, db *sql.DB, o MigrateOptions) (applied []Migration, err error) {
	if o.Database, err = checkDatabase(ctx, db, o.Database); err != nil {
		return nil, err
	}
	all, err := Migrations(o.Database)
	if err != nil {
		return nil, err
	}
	grants, err := allGrants(o.Database, o.Role, o.ServiceRole)
	if err != nil {
		return nil, err
	}
	conns := newConns(db, Options{Database: o.Database, Timeout: migrationWait})
	conns.setup[len(conns.setup)-1] = "SET NAMES utf8mb4" // for the texts in views
	conn, err := conns.get(ctx)
	if err != nil {
		return nil, explain(err)
	}
	defer discard(conn)
	err = locked(ctx, conn, lockName("migrate", o.Database), migrationWait, func() error {
		if applied, err = migrate(ctx, conn, o.Database, all); err != nil {
			return err
		}
		return runAll(ctx, conn, strings.Split(grants, ";\n"))
	})
	if err != nil {
		return nil, fmt.Errorf("migrate database %q: %w", o.Database, err)
	}
	return applied, nil
}

func migrate(ctx context.Context, conn *conn, database string, all []Migration) ([]Migration, error) {
	v, err := schemaVersion(ctx, conn, database)
	if err != nil {
		return nil, err
	}
	if v.Applied > len(all) && !v.Fits(len(all)) {
		return nil, fmt.Errorf("%w: it has version %d, and this version knows up to %d", ErrNewerSchema, v.Applied, len(all))
	}
	all = all[min(v.Applied, len(all)):]
	for _, m := range all {
		if err := runAll(ctx, conn, m.statements()); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return all, runAll(ctx, conn, []string{newStatements(database).addDays.literal(rows{{daysAhead}})})
}

func runAll(ctx context.Context, conn *conn, statements []string) error {
	for _, text := range statements {
		if strings.TrimSpace(comment.ReplaceAllString(text+"\n", "")) == "" {
			continue
		}
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return explain(err)
		}
	}
	return nil
}

// SchemaVersion returns the number of the last migration that has been applied, 0 if there was none, and the number of
// the newest that this version of the package knows. An empty database is the selected one.
func SchemaVersion(ctx context.Context, db *sql.DB, database string) (applied, newest int, err error) {
	if database, err = checkDatabase(ctx, db, database); err != nil {
		return 0, 0, err
	}
	v, err := schemaVersion(ctx, db, database)
	return v.Applied, newestVersion(), err
}

// CheckSchema returns nil if this version of the package can work with the schema, an error that is ErrNoSchema if
// the schema is missing or too old, and one that is ErrNewerSchema if it is too new. An empty database is the selected
// one.
func CheckSchema(ctx context.Context, db *sql.DB, database string) error {
	database, err := checkDatabase(ctx, db, database)
	if err != nil {
		return err
	}
	return checkVersion(ctx, db, database, newestVersion())
}

// checkVersion compares the schema that is there with the newest version that a program knows.
func checkVersion(ctx context.Context, q queryer, database string, known int) error {
	v, err := schemaVersion(ctx, q, database)
	switch {
	case err != nil:
		return err
	case v.Applied < known:
		return fmt.Errorf("%w: database %q has version %d, and this version needs %d; "+
			"run `retrysafe migrate up`, or mysqlstore.Migrate", ErrNoSchema, database, v.Applied, known)
	case !v.Fits(known):
		return fmt.Errorf("%w: database %q has version %d, and this version knows up to %d; use the newer version",
			ErrNewerSchema, database, v.Applied, known)
	}
	return nil
}

func schemaVersion(ctx context.Context, q queryer, database string) (v storekit.SchemaVersion, err error) {
	err = q.QueryRowContext(ctx, inDatabase(sqlFile("version"), database)).Scan(&v.Applied, &v.Oldest)
	switch {
	case errors.Is(err, sql.ErrNoRows), errorNumber(err) == noTable:
		return storekit.SchemaVersion{}, nil
	case err != nil:
		return storekit.SchemaVersion{}, fmt.Errorf("mysqlstore: read the version of database %q: %w", database, explain(err))
	}
	return v, nil
}
