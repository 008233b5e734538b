package servers

import (
	"os"
	"sync"
	"testing"
)

// mysqlVariable is the environment variable with the data source name of a superuser on a server of MariaDB or MySQL
// that tests share, instead of starting their own.
const mysqlVariable = "RETRYSAFE_TEST_MYSQL"

// SharedMariaDB is one server for all tests of a test binary. The zero value is ready for use; the server starts
// with the first Get and ends with the process. A SharedMariaDB must not be copied.
//
// If the environment variable RETRYSAFE_TEST_MYSQL has a data source name, such as root:secret@tcp(127.0.0.1:3306)/,
// the server there is used instead. Kill and similar methods then fail the test; tests that need them start their own
// server.
type SharedMariaDB struct {
	Options MariaDBOptions

	once sync.Once
	m    *MariaDB
	err  error
}

// Get returns the server. It fails the test, and all tests that follow, if the server does not start.
func (s *SharedMariaDB) Get(t testing.TB) *MariaDB {
	t.Helper()
	s.once.Do(func() { s.m, s.err = s.launch() })
	check(t, s.err)
	return s.m
}

func (s *SharedMariaDB) launch() (*MariaDB, error) {
	given := os.Getenv(mysqlVariable)
	if given == "" {
		return LaunchMariaDB(s.Options)
	}
	base, err := parseMySQLDSN(given)
	if err != nil {
		return nil, err
	}
	client, err := findProgram(mariadbClient)
	if err != nil {
		return nil, err
	}
	return &MariaDB{base: base, client: client}, nil
}
