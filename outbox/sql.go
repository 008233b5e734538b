package outbox

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// Dialect is the SQL dialect of a database. Its value is the name of a folder below sql.
type Dialect string

// The supported dialects.
const (
	PostgreSQL Dialect = "postgres" // 14 and later
	SQLite     Dialect = "sqlite"   // 3.42 and later
)

//go:embed sql
var sqlFiles embed.FS

// statements holds the texts of one dialect's folder, with the table names of one outbox filled in.
type statements struct {
	begin, commit, rollback       string
	prepare, version, migrated    string
	save, due, heads, dueHeads    string
	take, settle, settleFree      string
	dead, letter, redeliver, drop string
	stats, sweep                  string

	migrations []Migration
}

// name matches the allowed names of tables and schemas. A name becomes part of statements, in quotes.
var name = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

func newStatements(d Dialect, o Options) (*statements, error) {
	o.Table = cmp.Or(o.Table, "outbox")
	if d != PostgreSQL && d != SQLite {
		return nil, fmt.Errorf("outbox: unsupported dialect %q; supported: %q, %q", d, PostgreSQL, SQLite)
	}
	for _, n := range []string{o.Table, cmp.Or(o.Schema, "none")} {
		if !name.MatchString(n) {
			return nil, fmt.Errorf("outbox: invalid name %q: use up to 40 lower-case letters, digits and "+
				"underscores, not starting with a digit", n)
		}
	}
	if d == SQLite && o.Schema != "" {
		return nil, fmt.Errorf("outbox: SQLite has no schemas: name the table %q instead", o.Schema+"_"+o.Table)
	}
	names := o.names(strings.TrimSpace(sqlFile(d, "clock")))
	text := func(name string) string { return names.Replace(sqlFile(d, name)) }
	return &statements{
		begin: text("begin"), commit: text("commit"), rollback: text("rollback"),
		prepare: text("prepare"), version: text("version"), migrated: text("migrated"),
		save: text("save"), due: text("due"), heads: text("heads"), dueHeads: text("due_heads"),
		take: text("take"), settle: text("settle"), settleFree: text("settle_free"),
		dead: text("dead"), letter: text("letter"), redeliver: text("redeliver"), drop: text("drop"),
		stats: text("stats"), sweep: text("sweep"),
		migrations: newMigrations(d, names),
	}, nil
}

// names returns the replacer of the placeholders in statements. {{messages}} and {{migrations}} are tables, {{index
// x}} is an index, {{schema}} is a string that is empty if there is no schema, and {{clock}} is the database's time
// in microseconds since 1970.
func (o Options) names(clock string) *strings.Replacer {
	in := ""
	if o.Schema != "" {
		in = `"` + o.Schema + `".`
	}
	return strings.NewReplacer(
		"{{messages}}", in+`"`+o.Table+`"`,
		"{{migrations}}", in+`"`+o.Table+`_migrations"`,
		"{{schema}}", "'"+o.Schema+"'",
		"{{clock}}", clock,
		"{{index ", `"`+o.Table+"_", "}}", `"`,
	)
}

// sqlFile returns the text of one file in a dialect's folder.
func sqlFile(d Dialect, name string) string {
	b, err := sqlFiles.ReadFile("sql/" + string(d) + "/" + name + ".sql")
	if err != nil {
		panic(err) // the file is embedded
	}
	return string(b)
}

// newMigrations returns a dialect's migrations in ascending order.
func newMigrations(d Dialect, names *strings.Replacer) (all []Migration) {
	const folder = "migrations/"
	files, err := fs.Glob(sqlFiles, "sql/"+string(d)+"/"+folder+"*.sql")
	if err != nil {
		panic(err)
	}
	for i, file := range files {
		_, file, _ = strings.Cut(strings.TrimSuffix(file, ".sql"), folder)
		all = append(all, Migration{Version: i + 1, Name: file, SQL: names.Replace(sqlFile(d, folder+file))})
	}
	return all
}
