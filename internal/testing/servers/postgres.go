package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Postgres is a PostgreSQL server. Its superuser postgres needs no password.
type Postgres struct {
	*Instance
	base     url.URL // URL of the database postgres
	bin      string  // folder of the server's programs
	client   string  // path of psql
	data     string
	env      []string
	standbys []*Postgres // synchronous standbys, for which commits wait
	primary  *Postgres   // the primary of this standby; nil if this is a primary
}

// PostgresOptions are the options of a Postgres. PostgresOptions{} works.
type PostgresOptions struct {
	// Settings are added to postgresql.conf and override the defaults of the tests: PostgreSQL's own (fsync and
	// synchronous_commit are on), with room for 200 connections and 5 standbys.
	Settings map[string]string
	// DataDir is the data directory. It is kept when the server is closed. Default: a temporary folder. If tests run
	// as root, the user postgres must have access to it, which t.TempDir() does not allow.
	DataDir string
	// Env is added to the server's environment: see FakeTime.
	Env []string
}

// StartPostgres starts a server for one test and ends it with the test.
func StartPostgres(t testing.TB, o PostgresOptions) *Postgres {
	t.Helper()
	return startFor(t, LaunchPostgres, o)
}

// LaunchPostgres starts a server for programs without a testing.TB. It ends with Close, or with this process.
func LaunchPostgres(o PostgresOptions) (*Postgres, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	p, err := newPostgres("postgres", bin, o.DataDir, o.Env)
	if err != nil {
		return nil, err
	}
	return started(p, p.initialize(o.Settings))
}

func findPostgres() (string, error) {
	path, err := findProgram(initdb)
	if err != nil {
		return "", err
	}
	path, err = filepath.EvalSymlinks(path) // the other programs are next to the real one
	return filepath.Dir(path), err
}

// freeMemory is the watchdog's last step. A killed server leaves a few bytes of System V shared memory, whose ID is
// the second word in the seventh line of postmaster.pid.
const freeMemory = `ipcrm -m $(awk 'NR == 7 { print $2 }' '%s/postmaster.pid') 2>/dev/null`

// newPostgres returns a server that is not started. Its data directory, by default in its folder, is still empty.
func newPostgres(name, bin, data string, env []string) (*Postgres, error) {
	inFolder := cmp.Or(data, "data")
	in, err := newInstance(name, "postgres", "QUIT", fmt.Sprintf(freeMemory, inFolder))
	if err != nil {
		return nil, err
	}
	if data == "" {
		data = filepath.Join(in.folder.path, inFolder)
	}
	p := &Postgres{Instance: in, bin: bin, client: filepath.Join(bin, "psql"), data: data, env: env, base: url.URL{
		Scheme: "postgres", User: url.User("postgres"), Host: in.address(), Path: "/postgres", RawQuery: "sslmode=disable",
	}}
	in.stop, in.ready = syscall.SIGINT, p.isReady
	in.command = append(slices.Clone(env), filepath.Join(bin, "postgres"), "-D", data,
		"-h", "127.0.0.1", "-p", strconv.Itoa(in.port.number), "-k", in.folder.path)
	return p, nil
}

// initialize fills the data directory if it is empty, and writes the settings.
func (p *Postgres) initialize(settings map[string]string) error {
	if _, err := os.Stat(filepath.Join(p.data, "PG_VERSION")); errors.Is(err, os.ErrNotExist) {
		if err := p.fill(); err != nil {
			return err
		}
	}
	all := map[string]string{
		"max_connections": "200",
		"max_wal_senders": "5",
		"wal_level":       "replica",
		"wal_keep_size":   "256MB", // a standby that was down gets what it missed
		"shared_buffers":  "64MB",
		// in the data directory, so that a killed server leaves nothing in /dev/shm
		"dynamic_shared_memory_type": "mmap",
	}
	maps.Copy(all, settings)
	conf, err := os.OpenFile(filepath.Join(p.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(conf, "%s = '%s'\n", name, strings.ReplaceAll(all[name], "'", "''"))
	}
	return conf.Close()
}

// fill makes the data directory of a new server with initdb. All copies have the same system identifier. Only a standby
// depends on it, and a standby is a copy of its primary.
func (p *Postgres) fill() error {
	args := []string{
		filepath.Join(p.bin, "initdb"), "-U", "postgres", "--auth=trust",
		"--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C",
	}
	return p.folder.fill(p.data, "postgres", args, func(args []string) []string { return append(args, "-D", p.data) })
}

func (p *Postgres) isReady(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "pg_isready"), "-t", "5", "-d", p.URL("postgres"))
	cmd.Env = environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// URL returns the URL of a database of the server.
func (p *Postgres) URL(database string) string {
	u := p.base
	u.Path = "/" + database
	return u.String()
}
