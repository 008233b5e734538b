//go:build unix

package exactlyonce

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/mysqlstore"
	"github.com/retrysafe/retrysafe/stores/pgstore"
	_ "github.com/retrysafe/retrysafe/stores/sqlitestore" // the driver
)

// inboxDatabase is a database with an inbox, and the services whose requests wait there.
type inboxDatabase struct {
	name    string
	dialect outbox.Dialect
	store   string  // as the proxy's file has it
	service string  // the variable DATABASE of the services
	db      *sql.DB // that of the store, for the test
	// server is killed and paused; nil for a file, which has no server.
	server interface {
		Kill(t testing.TB)
		Start(t testing.TB)
		Pause(t testing.TB)
		Resume(t testing.TB)
	}
	// completes says that the services complete their keys in their own transactions.
	completes bool
	languages []language
	// records returns the ID and the state of all keys.
	records string
	// lock locks the table of the inbox for writers, and waiting counts those that wait for it. It is empty for a file,
	// which is locked as a whole.
	lock, unlock, waiting string
	// ledger returns the orders that were charged, with the numbers of the charges.
	ledger func(s *inboxStand) map[string][]int
}

// tables are those of a service.
const tables = `CREATE TABLE prices (article varchar(20) PRIMARY KEY, amount integer NOT NULL)
	INSERT INTO prices VALUES ('book', 17)
	CREATE TABLE charges (id SERIAL PRIMARY KEY, order_id varchar(100) NOT NULL, amount integer NOT NULL)`

func inPostgres(t *testing.T) *inboxDatabase {
	t.Helper()
	pg := servers.StartPostgres(t, servers.PostgresOptions{Settings: map[string]string{
		"max_connections": "400", "fsync": "off", // a server that is killed, on a machine that is not, loses nothing
	}})
	url := pg.Database(t)
	d := &inboxDatabase{
		name: "PostgreSQL", dialect: outbox.PostgreSQL, store: url, service: url, server: pg, completes: true,
		db:        openDB(t, "pgx", url),
		languages: named(languages()[0], languages()[1], languages()[3]),
		records:   "SELECT id, state FROM retrysafe.records", lock: "LOCK TABLE retrysafe_inbox IN SHARE MODE", unlock: "ROLLBACK",
		waiting: "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted", ledger: chargesOf,
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err == nil {
		_, err = pgstore.Migrate(t.Context(), pool, pgstore.MigrateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
	return d
}

func inMariaDB(t *testing.T) *inboxDatabase {
	t.Helper()
	m := servers.StartMariaDB(t, servers.MariaDBOptions{Settings: map[string]string{
		"innodb-flush-log-at-trx-commit": "2", // as above
	}})
	dsn := m.Database(t)
	user, at, _ := strings.Cut(dsn, "@tcp(")
	url := "mysql://" + user + "@" + strings.Replace(at, ")", "", 1)
	d := &inboxDatabase{
		name: "MariaDB", dialect: outbox.MySQL, store: url, service: url, server: m, completes: true,
		db: openDB(t, "mysql", dsn),
		languages: []language{
			goService,
			{name: "Python", command: python("pymysql"), forks: true},
			{name: "Node", command: func(t *testing.T) []string {
				return []string{"NODE_PATH=" + servers.NodeModules(t, "mysql2"), servers.Node(t), program("service.js")}
			}},
		},
		records: "SELECT id, state FROM retrysafe_records", lock: "LOCK TABLES retrysafe_inbox READ", unlock: "UNLOCK TABLES",
		waiting: "SELECT count(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'", ledger: chargesOf,
	}
	if _, err := mysqlstore.Migrate(t.Context(), d.db, mysqlstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	return d
}

func inSQLite(t *testing.T) *inboxDatabase {
	t.Helper()
	dir := t.TempDir()
	store, ledger := filepath.Join(dir, "keys.db"), filepath.Join(dir, "ledger")
	return &inboxDatabase{
		name: "SQLite", dialect: outbox.SQLite, store: store, service: ledger,
		db:        openDB(t, "sqlite", "file:"+store+"?_txlock=immediate&_pragma=busy_timeout(1000)"),
		languages: fileServices(), records: "SELECT key, state FROM retrysafe_keys", lock: "BEGIN IMMEDIATE", unlock: "ROLLBACK",
		ledger: func(s *inboxStand) map[string][]int { return linesOf(s.T, ledger) },
	}
}

var goService = language{name: "Go", command: func(t *testing.T) []string { return []string{build(t, "./services/goservice")} }}

// fileServices are services without a database.
func fileServices() []language {
	return []language{
		goService,
		{name: "Python", command: func(t *testing.T) []string {
			return []string{servers.Python(t), program("service.py"), "file"}
		}, forks: true},
		{name: "Node", command: func(t *testing.T) []string { return []string{servers.Node(t), program("service.js")} }},
	}
}

// named returns the languages without the names of their drivers.
func named(all ...language) []language {
	for i := range all {
		all[i].name, _, _ = strings.Cut(all[i].name, ",")
	}
	return all
}

func openDB(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// chargesOf reads the table charges.
func chargesOf(s *inboxStand) map[string][]int {
	charges := map[string][]int{}
	s.each("SELECT order_id, id FROM charges", func(rows *sql.Rows) error {
		var order string
		var id int
		err := rows.Scan(&order, &id)
		charges[order] = append(charges[order], id)
		return err
	})
	return charges
}

// linesOf reads a ledger that is a file: the numbers of the charges are those of the lines.
func linesOf(t *testing.T, path string) map[string][]int {
	t.Helper()
	charges := map[string][]int{}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return charges
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for n, lines := 1, bufio.NewScanner(file); lines.Scan(); n++ {
		charges[lines.Text()] = append(charges[lines.Text()], n)
	}
	return charges
}

// each calls f for each row. The server may have been killed, and connections with it.
func (s *inboxStand) each(query string, f func(*sql.Rows) error) {
	s.Helper()
	var rows *sql.Rows
	s.eventually(query, func(ctx context.Context) (err error) {
		rows, err = s.db.QueryContext(ctx, query)
		return err
	})
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			s.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		s.Fatal(err)
	}
}

// eventually repeats f until it returns nil.
func (s *inboxStand) eventually(what string, f func(ctx context.Context) error) {
	s.Helper()
	for late := time.Now().Add(patience); ; pause(s.Context(), 20*time.Millisecond) {
		err := f(s.Context())
		if err == nil {
			return
		}
		if time.Now().After(late) {
			s.Fatalf("%s: %v", what, err)
		}
	}
}
