package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
)

// DSN returns the data source name of a database of the server, in the format of the driver go-sql-driver/mysql.
func (m *MariaDB) DSN(database string) string { return m.base.database(database) }

// Database creates a fresh database and returns its data source name. When t ends, the connections to it are closed
// and the database is dropped, provided that the server is running.
func (m *MariaDB) Database(t testing.TB) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	m.SQL(t, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if m.Instance != nil && (m.runs() != nil || m.paused) {
			return
		}
		m.drop(t, name)
	})
	return m.DSN(name)
}

// drop closes connections first, because a drop waits for open transactions. A connection that ends meanwhile makes
// KILL fail, which does not matter.
func (m *MariaDB) drop(t testing.TB, name string) {
	t.Helper()
	kills := m.SQL(t, "SELECT CONCAT('KILL ', id, ';') FROM information_schema.processlist WHERE db = '"+name+"'")
	_, err := m.sql("", kills, "--force")
	if err != nil && !strings.Contains(err.Error(), "Unknown thread id") {
		t.Error(err)
	}
	m.SQL(t, "SET lock_wait_timeout = 60; DROP DATABASE IF EXISTS "+name)
}

// SQL runs statements as the superuser, with no database selected. It fails the test at the first statement that
// fails, or after two minutes. It returns the rows, one per line, with columns separated by tabs.
func (m *MariaDB) SQL(t testing.TB, sql string) string {
	t.Helper()
	return m.SQLAt(t, "", sql)
}

// SQLAt is SQL in a database, given by its name or by the data source name that Database returned.
func (m *MariaDB) SQLAt(t testing.TB, database, sql string) string {
	t.Helper()
	out, err := m.sql(database, sql)
	check(t, err)
	return out
}

func (m *MariaDB) sql(database, sql string, options ...string) (string, error) {
	if _, path, ok := strings.Cut(database, ")/"); ok {
		database, _, _ = strings.Cut(path, "?")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	host, port, err := net.SplitHostPort(m.base.address)
	if err != nil {
		return "", err
	}
	args := append([]string{
		"--no-defaults", "--batch", "--skip-column-names", "--default-character-set=utf8mb4",
		"--protocol=tcp", "--host=" + host, "--port=" + port, "--user=" + m.base.user,
	}, options...)
	cmd := exec.CommandContext(ctx, m.client, append(args, database)...)
	cmd.Stdin, cmd.Dir = strings.NewReader(sql), "/"
	cmd.Env = append(environment(), "MYSQL_PWD="+m.base.password)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("servers: mariadb: %w\n%s", err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
