//go:build linux

package load

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// store is where keys are stored.
type store struct {
	name   string
	shared bool // by several processes
	// open returns the URL of an empty place, and a function that returns how many records it holds and how many bytes
	// their table takes.
	open func(t *testing.T, program string) (url string, size func() (records, bytes int64, err error))
}

func stores() []store {
	return []store{{"SQLite", false, openSQLite}, {"PostgreSQL", true, openPostgres}}
}

func openSQLite(t *testing.T, _ string) (string, func() (int64, int64, error)) {
	file := filepath.Join(t.TempDir(), "keys.db")
	db := open(t, "sqlite", "file:"+file+"?mode=ro")
	return file, func() (records, bytes int64, err error) {
		for _, name := range []string{file, file + "-wal"} {
			about, err := os.Stat(name)
			if err != nil {
				return 0, 0, err
			}
			bytes += about.Size()
		}
		err = db.QueryRow("SELECT count(*) FROM retrysafe_records").Scan(&records)
		return records, bytes, err
	}
}

// openPostgres measures the table of claims. The answers of a day are in a table that is dropped as a whole.
func openPostgres(t *testing.T, program string) (string, func() (int64, int64, error)) {
	url := servers.StartPostgres(t, servers.PostgresOptions{Settings: map[string]string{
		"fsync": "off", // the server is not killed
	}}).Database(t)
	if out, err := exec.Command(program, "migrate", "up", "--store="+url).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	db := open(t, "pgx", url)
	return url, func() (records, bytes int64, err error) {
		err = db.QueryRow(`SELECT (SELECT count(*) FROM retrysafe.claims), pg_total_relation_size('retrysafe.claims')`).
			Scan(&records, &bytes)
		return records, bytes, err
	}
}

func open(t *testing.T, driver, name string) *sql.DB {
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
