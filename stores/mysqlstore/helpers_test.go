package mysqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
)

// callEverything calls each method for n keys at once: if there are many, batches have several rows.
func callEverything(t testing.TB, s *Store, n int) {
	t.Helper()
	together(t, n, func(int) error {
		ctx, p := context.Background(), params(rand.Text())
		first, err := s.Claim(ctx, p)
		if err != nil {
			return err
		}
		again := p
		again.Owner = retrysafe.NewOwner()
		short := retrysafe.Retention{Replay: 1, Key: 1, Audit: time.Hour}
		body := []byte("'\\\"\x00\xff\x80 ü")
		for _, call := range []func() error{
			func() error { return s.Extend(ctx, first.Lease, time.Minute) },
			func() error { return s.Checkpoint(ctx, first.Lease, retrysafe.StepResult{Name: "step", Data: body}) },
			func() error { return wantVerdict(s, again, retrysafe.InFlight) },
			func() error { return s.Complete(ctx, first.Lease, retrysafe.Result{Code: 7, Body: body}, short) },
			func() error { // each of them sees the record of before
				shown, err := s.Inspect(ctx, p.Key.Digest())
				if err == nil && (len(shown) != 1 || string(shown[0].Result.Body) != string(body) ||
					len(shown[0].Steps) != 1 || string(shown[0].Steps[0].Data) != string(body)) {
					err = fmt.Errorf("Inspect shows %+v, want what was saved", shown)
				}
				return err
			},
			func() error { return wantVerdict(s, again, retrysafe.Acquired) }, // which puts the old record aside
			func() error { return wantVerdict(s, again, retrysafe.Acquired) },
		} {
			if err := call(); err != nil {
				return err
			}
		}
		return nil
	})
}

// lockRow changes the row of a key, as a transaction does that is not committed yet. Until unlock, operations on it
// wait.
func lockRow(t testing.TB, s *Store, k retrysafe.Key) (unlock func()) {
	t.Helper()
	tx, err := s.db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	d := k.Digest()
	text := fmt.Sprintf("UPDATE {{claims}} SET attempt = attempt + 100 WHERE k = %s", appendLiteral(nil, d[:]))
	result, err := tx.Exec(inDatabase(text, s.options.Database))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("lock %s: %d rows, %v", k, n, err)
	}
	return func() {
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	}
}

// held selects statements in the store's database that have run for longer than any does that waits for nothing.
const held = " FROM information_schema.processlist WHERE db = {{database_text}} AND id <> CONNECTION_ID() " +
	"AND command <> 'Sleep' AND time_ms > 200"

// lockWaits is how many statements wait for rows.
func lockWaits(t testing.TB, s *Store) int {
	t.Helper()
	return value[int](t, s, "SELECT COUNT(*)"+held)
}

// waiting names the statements that wait for rows.
func waiting(t testing.TB, s *Store) []string {
	t.Helper()
	return strings.Fields(value[string](t, s, "SELECT COALESCE(GROUP_CONCAT(query_id SEPARATOR ' '), '')"+held))
}

// status reads a counter of the server.
func status(t testing.TB, db *sql.DB, name string) (n int64) {
	t.Helper()
	if err := db.QueryRow("SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(new(string), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// withParams changes a data source name.
func withParams(t testing.TB, dsn string, change func(c *mysql.Config)) string {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if c.Params == nil {
		c.Params = make(map[string]string)
	}
	change(c)
	return c.FormatDSN()
}

// stranger is an account of the test's own that can log in, and nothing else. It returns its name and the data source
// name with which it connects.
func stranger(t testing.TB, dsn string) (role, at string) {
	t.Helper()
	admin := openPool(t, dsn)
	role = "app " + strings.ToLower(rand.Text())[:8] // a blank: names are quoted
	for _, text := range []string{"CREATE USER '" + role + "'@'%'"} {
		if _, err := admin.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := openPool(t, dsn).Exec("DROP USER '" + role + "'@'%'"); err != nil {
			t.Error(err)
		}
	})
	return role, withParams(t, dsn, func(c *mysql.Config) { c.User, c.Passwd = role, "" })
}

func wantVerdict(s *Store, p retrysafe.ClaimParams, want retrysafe.Verdict) error {
	c, err := s.Claim(context.Background(), p)
	if err == nil && c.Verdict != want {
		err = fmt.Errorf("claim: %v, want %v", c.Verdict, want)
	}
	return err
}
