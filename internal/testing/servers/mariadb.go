package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// MariaDB is a MariaDB server. Its superuser root needs no password.
type MariaDB struct {
	*Instance
	base   mysqlDSN // without a database
	client string   // path of the program mariadb
	data   string
}

// MariaDBOptions are the options of a MariaDB. MariaDBOptions{} works.
type MariaDBOptions struct {
	// Settings are added to the section [mariadbd] of the server's option file and override the defaults of the tests:
	// MariaDB's own (a commit waits for the disk, the binary log is off) with small buffers, utf8mb4 and room for 300
	// connections. Values are written as they are, so that a value with # must come in quotes.
	Settings map[string]string
	// DataDir is the data directory. It is kept when the server is closed. Default: a temporary folder. If tests run
	// as root, the user mysql must have access to it, which t.TempDir() does not allow.
	DataDir string
	// Env is added to the server's environment: see FakeTime.
	Env []string
}

// StartMariaDB starts a server for one test and ends it with the test. It takes about half a second.
func StartMariaDB(t testing.TB, o MariaDBOptions) *MariaDB {
	t.Helper()
	return startFor(t, LaunchMariaDB, o)
}

// LaunchMariaDB starts a server for programs without a testing.TB. It ends with Close, or with this process.
func LaunchMariaDB(o MariaDBOptions) (*MariaDB, error) {
	if err := installMissing(mariadb, mariadbInstall, mariadbClient); err != nil {
		return nil, err
	}
	// On SIGKILL, because the folder goes with all that the server could save.
	in, err := newInstance("mariadb", "mysql", "KILL", "")
	if err != nil {
		return nil, err
	}
	m := &MariaDB{
		Instance: in, client: mariadbClient.lookUp(),
		data: cmp.Or(o.DataDir, filepath.Join(in.folder.path, "data")),
		base: mysqlDSN{user: "root", address: in.address()},
	}
	return started(m, m.configure(o))
}

// mariadbLogSize is the size of InnoDB's redo log. The template has the same, so that a start need not resize it.
const mariadbLogSize = "32M"

func (m *MariaDB) configure(o MariaDBOptions) error {
	in := func(name string) string { return filepath.Join(m.folder.path, name) }
	if _, err := os.Stat(filepath.Join(m.data, "mysql")); errors.Is(err, os.ErrNotExist) {
		// --cross-bootstrap leaves out the user of the machine's own name, which may not resolve.
		err := m.folder.fill(m.data, "mariadb", []string{
			mariadbInstall.lookUp(), "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db",
			"--cross-bootstrap", "--innodb-log-file-size=" + mariadbLogSize,
		}, func(args []string) []string { return append(args, "--datadir="+m.data) })
		if err != nil {
			return err
		}
	}
	options := in("mariadb.cnf")
	m.command = append(slices.Clone(o.Env), mariadb.lookUp(), "--defaults-file="+options)
	m.stop, m.ready = syscall.SIGTERM, m.greets
	return m.folder.owner.write(options, mariadbOptions(o.Settings, map[string]string{
		"datadir":      m.data,
		"tmpdir":       m.folder.path,
		"socket":       in("socket"),
		"pid-file":     in("pid"),
		"bind-address": "127.0.0.1",
		"port":         strconv.Itoa(m.port.number),
	}))
}

// mariadbOptions returns the text of the option file. Servers read - and _ in names as the same, but the last line
// with a name counts: the settings of the test come last.
func mariadbOptions(settings, places map[string]string) string {
	defaults := map[string]string{
		// Without names no client waits for DNS, and none is locked out for connecting often without logging in,
		// as the readiness check does.
		"skip-name-resolve":     "ON",
		"character-set-server":  "utf8mb4",
		"max-connections":       "300",
		"innodb-log-file-size":  mariadbLogSize,
		"sync-binlog":           "1", // matters only with log-bin
		"log-warnings":          "1", // not every client that disconnects without a word
		"innodb-use-native-aio": "OFF",
		// small, because several servers run at once
		"innodb-buffer-pool-size":    "64M",
		"key-buffer-size":            "1M",
		"aria-pagecache-buffer-size": "1M",
		// faster stops
		"innodb-buffer-pool-dump-at-shutdown": "OFF",
		"innodb-buffer-pool-load-at-startup":  "OFF",
	}
	text := "[mariadbd]\n"
	for _, part := range []map[string]string{defaults, places, settings} {
		for _, name := range slices.Sorted(maps.Keys(part)) {
			text += name + " = " + part[name] + "\n"
		}
	}
	return text
}

// greets returns nil once the server sends a client its greeting, which starts with the protocol's version after a
// header of four bytes. It sends one only after recovery. An error, such as too many connections, starts with 255.
func (m *MariaDB) greets(ctx context.Context) error {
	answer, err := greeting(ctx, m.address(), "", 5)
	if err == nil && answer[4] != 10 {
		err = fmt.Errorf("servers: unexpected greeting of MariaDB: %q", answer)
	}
	return err
}

// mysqlDSN has the parts of a data source name in the format of go-sql-driver/mysql.
type mysqlDSN struct {
	user, password string
	address        string // host:port
	params         string // from the question mark on
}

// errMySQLDSN does not say what the variable has, because of the password in it.
var errMySQLDSN = errors.New("servers: " + mysqlVariable + " must be like user:password@tcp(host:port)/")

func parseMySQLDSN(dsn string) (d mysqlDSN, err error) {
	login, rest, ok := strings.Cut(dsn, "@tcp(")
	if !ok {
		return d, errMySQLDSN
	}
	d.user, d.password, _ = strings.Cut(login, ":")
	d.address, rest, ok = strings.Cut(rest, ")/")
	if _, _, err := net.SplitHostPort(d.address); err != nil || !ok {
		return d, errMySQLDSN
	}
	if _, params, ok := strings.Cut(rest, "?"); ok {
		d.params = "?" + params
	}
	return d, nil
}

func (d mysqlDSN) database(name string) string {
	login := d.user
	if d.password != "" {
		login += ":" + d.password
	}
	return login + "@tcp(" + d.address + ")/" + name + d.params
}
