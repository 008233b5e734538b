package servers

import (
	"net/url"
	"os"
	"sync"
	"testing"
)

// postgresVariable is the environment variable with the URL of a superuser's database on a server that tests share,
// instead of starting their own.
const postgresVariable = "RETRYSAFE_TEST_POSTGRES"

// SharedPostgres is one server for all tests of a test binary. The zero value is ready for use; the server starts
// with the first Get and ends with the process. A SharedPostgres must not be copied.
//
// If the environment variable RETRYSAFE_TEST_POSTGRES has a URL, the server there is used instead. Kill and similar
// methods then fail the test; tests that need them start their own server.
type SharedPostgres struct {
	Options PostgresOptions

	once sync.Once
	pg   *Postgres
	err  error
}

// Get returns the server. It fails the test, and all tests that follow, if the server does not start.
func (s *SharedPostgres) Get(t testing.TB) *Postgres {
	t.Helper()
	s.once.Do(func() { s.pg, s.err = s.launch() })
	check(t, s.err)
	return s.pg
}

func (s *SharedPostgres) launch() (*Postgres, error) {
	given := os.Getenv(postgresVariable)
	if given == "" {
		return LaunchPostgres(s.Options)
	}
	base, err := url.Parse(given)
	if err != nil {
		return nil, err
	}
	client, err := findProgram(psql)
	if err != nil {
		return nil, err
	}
	return &Postgres{base: *base, client: client}, nil
}
