package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// PgBouncer is a connection pooler in front of a Postgres.
type PgBouncer struct {
	*Instance
	pg   *Postgres
	base url.URL
}

// PgBouncerOptions are the options of a PgBouncer. PgBouncerOptions{} works.
type PgBouncerOptions struct {
	// PoolMode is session, transaction or statement. Default: transaction.
	PoolMode string
	// PoolSize is the number of server connections for each pair of database and user. Default: 10.
	PoolSize int
	// Settings are added to the section [pgbouncer], and override the defaults of the tests.
	Settings map[string]string
}

// StartPgBouncer starts a PgBouncer for one test and ends it with the test. Every role that can log in at the server
// without a password can do so at PgBouncer.
func StartPgBouncer(t testing.TB, pg *Postgres, o PgBouncerOptions) *PgBouncer {
	t.Helper()
	b, err := newPgBouncer(pg, o)
	check(t, err)
	b.closeWith(t)
	check(t, b.start())
	return b
}

func newPgBouncer(pg *Postgres, o PgBouncerOptions) (*PgBouncer, error) {
	path, err := findProgram(pgbouncer)
	if err != nil {
		return nil, err
	}
	in, err := newInstance("pgbouncer", "postgres", "QUIT", "")
	if err != nil {
		return nil, err
	}
	b := &PgBouncer{Instance: in, pg: pg, base: pg.base}
	b.base.Host = in.address()
	// other signals wait until clients have disconnected, in some versions; this one never does
	in.stop = syscall.SIGQUIT
	in.ready = b.isReady
	in.command = []string{path, filepath.Join(in.folder.path, "pgbouncer.ini")}
	if err := b.configure(o); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *PgBouncer) configure(o PgBouncerOptions) error {
	user := b.base.User.Username()
	password, _ := b.base.User.Password()
	users := filepath.Join(b.folder.path, "users.txt")
	settings := map[string]string{
		"listen_addr":       "127.0.0.1",
		"listen_port":       strconv.Itoa(b.port.number),
		"unix_socket_dir":   "",
		"auth_type":         "trust",
		"auth_file":         users,
		"auth_user":         user, // looks up roles that are not in the file
		"admin_users":       user,
		"pool_mode":         cmp.Or(o.PoolMode, "transaction"),
		"default_pool_size": strconv.Itoa(cmp.Or(o.PoolSize, 10)),
		"max_client_conn":   "2000",
	}
	host, port := b.pg.base.Hostname(), cmp.Or(b.pg.base.Port(), "5432")
	ini := fmt.Sprintf("[databases]\n* = host=%s port=%s\n[pgbouncer]\n", host, port) +
		settingLines("%s = %s\n", settings, o.Settings)
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	return errors.Join(
		b.folder.owner.write(users, quote(user)+" "+quote(password)+"\n"),
		b.folder.owner.write(filepath.Join(b.folder.path, "pgbouncer.ini"), ini))
}

func (b *PgBouncer) isReady(context.Context) error {
	_, err := b.pg.psql(b.URL("pgbouncer"), "SHOW VERSION")
	return err
}

// URL returns the URL of a database behind PgBouncer. The database pgbouncer is PgBouncer's own console.
func (b *PgBouncer) URL(database string) string {
	u := b.base
	u.Path = "/" + database
	return u.String()
}

// Through returns the URL of a database behind PgBouncer, from the database's own URL as returned by
// Postgres.Database.
func (b *PgBouncer) Through(t testing.TB, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	check(t, err)
	return b.URL(strings.TrimPrefix(u.Path, "/"))
}
