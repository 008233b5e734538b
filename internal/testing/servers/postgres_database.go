package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// Database creates a fresh database and returns its URL. When t ends, the database is dropped, even if clients are
// connected to it, provided that the server is running.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	p.Psql(t, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if p.Instance != nil && (p.runs() != nil || p.paused) {
			return
		}
		// Commit locally: a standby for which commits wait may have ended.
		p.Psql(t, "SET synchronous_commit = local; DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	})
	return p.URL(name)
}

// Psql runs statements in the database postgres. It fails the test at the first statement that fails, or after two
// minutes. It returns the rows, one per line, with columns separated by "|".
func (p *Postgres) Psql(t testing.TB, sql string) string {
	t.Helper()
	return p.PsqlAt(t, p.URL("postgres"), sql)
}

// PsqlAt is Psql for the database with this URL.
func (p *Postgres) PsqlAt(t testing.TB, url, sql string) string {
	t.Helper()
	out, err := p.psql(url, sql)
	check(t, err)
	return out
}

func (p *Postgres) psql(url, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.client, "-XAtq", "-v", "ON_ERROR_STOP=1", "-f", "-", "-d", url)
	cmd.Stdin, cmd.Env, cmd.Dir = strings.NewReader(sql), environment(), "/"
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("servers: psql: %w\n%s", err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
