package mysqlstore

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
)

// No parameter of a data source name, and no default of a server, which is the same to a session, changes anything.
func TestDataSourceNamesDoNotMatter(t *testing.T) {
	t.Parallel()
	dsn := shared.Get(t).Database(t)
	s := openAt(t, dsn, Options{})
	execute(t, s, "CREATE TABLE charges (id INT) ENGINE = InnoDB")
	for name, change := range map[string]func(c *mysql.Config){
		"found rows": func(c *mysql.Config) { c.ClientFoundRows, c.ParseTime, c.Loc = true, true, time.Local },
		"interpolated": func(c *mysql.Config) {
			c.InterpolateParams, c.MultiStatements, c.Collation = true, true, "latin1_swedish_ci"
		},
		"small packets": func(c *mysql.Config) { c.MaxAllowedPacket, c.ColumnsWithAlias = 1<<16, true },
		"old charset":   func(c *mysql.Config) { _ = c.Apply(mysql.Charset("latin1", "latin1_bin")) },
		"ansi": func(c *mysql.Config) {
			c.Params["sql_mode"], c.Params["time_zone"] = "'ANSI,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE'", "'+05:30'"
		},
		"lax": func(c *mysql.Config) { c.Params["sql_mode"], c.Params["autocommit"] = "''", "0" },
		"careful": func(c *mysql.Config) {
			c.Params["sql_safe_updates"], c.Params["sql_select_limit"], c.Params["max_join_size"] = "1", "1", "1"
		},
		"serializable": func(c *mysql.Config) {
			c.Params["tx_isolation"], c.Params["innodb_lock_wait_timeout"] = "'SERIALIZABLE'", "1"
		},
		"of the past": func(c *mysql.Config) { c.Params["timestamp"], c.Params["time_zone"] = "1000000000", "'-12:00'" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			odd := openOn(t, openPool(t, withParams(t, dsn, change)), Options{})
			callEverything(t, odd, 1)
			callEverything(t, odd, 7)
			inTxOnce(t, odd, name)
		})
	}
}

// inTxOnce completes a key in a transaction, and expects it to be done.
func inTxOnce(t *testing.T, s *Store, id string) {
	t.Helper()
	guard := retrysafe.New(s, retrysafe.Options{})
	defer func() { _ = guard.Shutdown(context.Background()) }()
	for _, wantRun := range []bool{true, false} {
		ran := false
		answer, err := retrysafe.Do(t.Context(), guard, retrysafe.Request{Key: retrysafe.Key{ID: id}},
			func(ctx context.Context, _ *retrysafe.Attempt) (string, error) {
				ran = true
				if err := retrysafe.SetResult(ctx, "it's \\ \x00 done"); err != nil {
					return "", err
				}
				return "it's \\ \x00 done", s.InTx(ctx, s.db, func(ctx context.Context, tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO charges VALUES (1)")
					return err
				})
			})
		if err != nil || ran != wantRun || answer != "it's \\ \x00 done" {
			t.Errorf("ran %v, got %q, %v; want that it runs: %v", ran, answer, err, wantRun)
		}
	}
}
