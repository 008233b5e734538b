package sqljournal

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/client"
)

//go:embed sql/*.sql
var files embed.FS

// Dialect names a family of databases, which differ in their SQL.
type Dialect string

// The dialects that Journal knows.
const (
	PostgreSQL Dialect = "postgres"
	SQLite     Dialect = "sqlite"
	MySQL      Dialect = "mysql" // and MariaDB
)

// Journal is a client.Journal in a table of a database, through any driver of database/sql. Its bodies may hold
// secrets: grant the table to no other role.
//
// Each client has its own entries, under a name: that of the instance, which must be the same after a restart. Two
// processes must not use a name at the same time: nothing would run twice, but each result would be handed to both.
type Journal struct {
	db      *sql.DB
	dialect Dialect
	client  string
	begin, get, end,
	giveUp, list string
}

// tries is how often a write is tried that the database has refused because of another process.
const tries = 5

// New returns the journal of the client of that name, which has 1 to 255 bytes. The table must exist: see Migrate and
// Schema. The journal does not close db. It returns an error for a name of another length and for an unknown dialect.
func New(db *sql.DB, d Dialect, name string) (*Journal, error) {
	if name == "" || len(name) > 255 {
		return nil, fmt.Errorf("sqljournal: the client's name has %d bytes, it must have 1 to 255", len(name))
	}
	if _, err := Schema(d); err != nil {
		return nil, err
	}
	return &Journal{
		db: db, dialect: d, client: name,
		begin: statement("begin", d), get: statement("get", d), end: statement("end", d),
		giveUp: statement("give_up", d), list: statement("list", d),
	}, nil
}

// Schema returns the statement that creates the table if it does not exist, for migrations of your own. It returns an
// error for an unknown dialect.
func Schema(d Dialect) (string, error) {
	text, err := files.ReadFile("sql/schema_" + string(d) + ".sql")
	if err != nil {
		return "", fmt.Errorf("sqljournal: unsupported SQL dialect %q; supported: %s, %s, %s", d, PostgreSQL, SQLite, MySQL)
	}
	return string(text), nil
}

// Migrate creates the table if it does not exist. Several processes may call it at once.
func (j *Journal) Migrate(ctx context.Context) error {
	schema, err := Schema(j.dialect)
	if err != nil {
		return err
	}
	if err = j.write(ctx, schema); err != nil {
		err = j.write(ctx, schema) // another process may have made it at the same moment, which PostgreSQL calls a failure
	}
	return wrapSQL("migrate", err)
}

// statement returns a statement with the dialect's parameters. Some dialects have a file of their own for it.
func statement(name string, d Dialect) string {
	text, err := files.ReadFile("sql/" + name + "_" + string(d) + ".sql")
	if err != nil {
		text, err = files.ReadFile("sql/" + name + ".sql")
	}
	if err != nil {
		panic(err) // it is embedded
	}
	if d != PostgreSQL {
		return string(text)
	}
	var b strings.Builder
	for i, part := range strings.Split(string(text), "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// Begin implements Journal.
func (j *Journal) Begin(ctx context.Context, e client.Entry) (*client.Entry, error) {
	header, err := json.Marshal(e.Header)
	if err != nil {
		return nil, wrapSQL("begin", err)
	}
	body := e.Body
	if body == nil {
		body = []byte{}
	}
	for range tries {
		known, findErr := j.Find(ctx, e.ID)
		if known != nil || findErr != nil {
			return known, findErr
		}
		err = j.write(ctx, j.begin, j.client, e.ID, e.Intent, e.Key, e.Method, e.URL, e.Credential, string(header), body,
			e.BegunAt.UnixMilli(), e.GivenUp)
		if err == nil {
			return nil, nil
		}
		// The table's key refuses a second entry: another process may have begun it since, and even ended it before it
		// is looked for.
	}
	return nil, wrapSQL("begin", err)
}

// Find implements Journal.
func (j *Journal) Find(ctx context.Context, id string) (*client.Entry, error) {
	e, err := scanEntry(j.db.QueryRowContext(ctx, j.get, j.client, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return e, wrapSQL("find", err)
}

// End implements Journal.
func (j *Journal) End(ctx context.Context, id string) error {
	return wrapSQL("end", j.change(ctx, id, j.end, j.client, id))
}

// GiveUp implements Journal.
func (j *Journal) GiveUp(ctx context.Context, id, why string) error {
	return wrapSQL("give up", j.change(ctx, id, j.giveUp, why, j.client, id))
}

// change executes a statement that may be repeated. MySQL and MariaDB end a statement to resolve a deadlock with
// another one, also if each is a transaction by itself; a database that can be read is not away.
func (j *Journal) change(ctx context.Context, id, statement string, args ...any) error {
	var err error
	for range tries {
		if err = j.write(ctx, statement, args...); err == nil {
			return nil
		}
		if _, findErr := j.Find(ctx, id); findErr != nil {
			return err
		}
	}
	return err
}

// Entries implements Journal.
func (j *Journal) Entries(ctx context.Context) ([]client.Entry, error) {
	rows, err := j.db.QueryContext(ctx, j.list, j.client)
	if err != nil {
		return nil, wrapSQL("list", err)
	}
	defer rows.Close()
	var entries []client.Entry
	for rows.Next() {
		e, err := scanEntry(rows)
		if err != nil {
			return nil, wrapSQL("list", err)
		}
		entries = append(entries, *e)
	}
	return entries, wrapSQL("list", rows.Err())
}

func scanEntry(row interface{ Scan(...any) error }) (*client.Entry, error) {
	var (
		e      client.Entry
		header string
		begun  int64
	)
	err := row.Scan(&e.ID, &e.Intent, &e.Key, &e.Method, &e.URL, &e.Credential, &header, &e.Body, &begun, &e.GivenUp)
	if err != nil {
		return nil, err
	}
	e.BegunAt = time.UnixMilli(begun)
	return &e, json.Unmarshal([]byte(header), &e.Header)
}

// write executes a statement in a transaction of its own. In PostgreSQL it is one that looks again at rows which
// others have changed meanwhile: a stricter one, as may be the database's default, would fail then. Statements that
// only read do not meet others that are as strict.
func (j *Journal) write(ctx context.Context, statement string, args ...any) error {
	if j.dialect != PostgreSQL {
		_, err := j.db.ExecContext(ctx, statement, args...)
		return err
	}
	tx, err := j.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
		_ = tx.Rollback() // it has failed anyway
		return err
	}
	return tx.Commit()
}

func wrapSQL(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqljournal: %s: %w", what, err)
}
