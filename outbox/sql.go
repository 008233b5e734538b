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
	MySQL      Dialect = "mysql"    // MariaDB 10.6 and MySQL 8.0.14 and later; tested on MariaDB 10.11
)

//go:embed sql
var sqlFiles embed.FS

// statements holds the statements of one dialect's folder, with the table names of one outbox filled in.
type statements struct {
	begin, commit, rollback       string
	lock, unlock                  string // unlock may be empty
	prepare, version              string
	migrated                      statement
	save, due, heads, dueHeads    statement
	take, extend                  statement
	settle, settleFree            statement
	dead, letter, redeliver, drop statement
	stats, held, sweep            statement
	put, fresh                    statement // fresh is empty where put returns the keys
	status, list, message         statement
	waiting                       statement
	pause, resume, paused         statement
	cancel, topics                statement
	senders, dueOf, lag           statement

	grants     string // of the functions that save; empty if there are none
	migrations []Migration
	// clash is the number of affected rows with which save reports that another message has the key.
	clash int64
	// sendersRead is how many senders one statement returns at most.
	sendersRead int
}

// statement is a text with parameters.
type statement struct {
	text string
	// order lists the arguments in the order in which the text has parameters, for MySQL, whose parameters have no
	// numbers. nil: the text numbers them.
	order []int
}

// bind returns the arguments as the driver takes them.
func (s statement) bind(args []any) []any {
	if s.order == nil {
		return args
	}
	all := make([]any, len(s.order))
	for i, n := range s.order {
		all[i] = args[n]
	}
	return all
}

// parameter matches a numbered parameter in the files of MySQL, and comment a line of them that is a comment: a driver
// that fills parameters in by itself also counts those in comments.
var (
	parameter = regexp.MustCompile(`\?[1-9]`)
	comment   = regexp.MustCompile(`(?m)^--.*\n`)
)

func newStatement(d Dialect, text string) statement {
	if d != MySQL {
		return statement{text: text}
	}
	s := statement{order: []int{}}
	s.text = parameter.ReplaceAllStringFunc(comment.ReplaceAllString(text, ""), func(p string) string {
		s.order = append(s.order, int(p[1]-'1'))
		return "?"
	})
	return s
}

// defaultTable is the name of the table if Options has none.
const defaultTable = "outbox"

// name matches the allowed names of tables and schemas. A name becomes part of statements, in quotes.
var name = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

func newStatements(d Dialect, o Options) (*statements, error) {
	o.Table = cmp.Or(o.Table, defaultTable)
	if d != PostgreSQL && d != SQLite && d != MySQL {
		return nil, fmt.Errorf("outbox: unsupported dialect %q; supported: %q, %q, %q", d, PostgreSQL, SQLite, MySQL)
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
	names := o.names(d, strings.TrimSpace(sqlFile(d, "clock")))
	text := func(name string) string { return names.Replace(sqlFile(d, name)) }
	with := func(name string) statement { return newStatement(d, text(name)) }
	s := &statements{
		begin: text("begin"), commit: text("commit"), rollback: text("rollback"),
		lock: text("lock"), unlock: strings.TrimSpace(text("unlock")),
		prepare: text("prepare"), version: text("version"), migrated: with("migrated"),
		save: with("save"), due: with("due"), heads: with("heads"), dueHeads: with("due_heads"),
		take: with("take"), extend: with("extend"), settle: with("settle"), settleFree: with("settle_free"),
		dead: with("dead"), letter: with("letter"), redeliver: with("redeliver"), drop: with("drop"),
		stats: with("stats"), held: with("held"), sweep: with("sweep"),
		put: with("put"), fresh: with("fresh"), status: with("status"), list: with("list"), message: with("message"), waiting: with("waiting"),
		pause: with("pause"), resume: with("resume"), paused: with("paused"),
		cancel: with("cancel"), topics: with("topics"),
		senders: with("senders"), dueOf: with("due_of"), lag: with("lag"),
		migrations: newMigrations(d, names),
	}
	if d == PostgreSQL {
		s.grants = text("grants")
	}
	s.sendersRead = sendersRead
	if d == MySQL {
		s.clash = 2 // see sql/mysql/save.sql
		s.sendersRead = 1
	}
	return s, nil
}

// names returns the replacer of the placeholders in statements. {{messages}}, {{migrations}} and {{paused}} are tables, {{save}} is
// the function that saves, {{index x}} is an index, {{schema}} is a string that is empty if there is no schema, and
// {{clock}} is the database's time in microseconds since 1970.
func (o Options) names(d Dialect, clock string) *strings.Replacer {
	in, quote := "", `"`
	if d == MySQL {
		quote = "`"
	}
	if o.Schema != "" {
		in = quote + o.Schema + quote + "."
	}
	return strings.NewReplacer(
		"{{messages}}", in+quote+o.Table+quote,
		"{{migrations}}", in+quote+o.Table+"_migrations"+quote,
		"{{paused}}", in+quote+o.Table+"_paused"+quote,
		"{{save}}", in+quote+o.Table+"_save"+quote,
		"{{schema}}", "'"+o.Schema+"'",
		"{{clock}}", clock,
		"{{index ", quote+o.Table+"_", "}}", quote,
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
