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

// mysqlVariable is the environment variable with the data source name of a superuser on a server of MariaDB or MySQL
// that tests share, instead of starting their own.
const mysqlVariable = "RETRYSAFE_TEST_MYSQL"

// Shared is one server for all tests of a test binary. The zero value is ready for use; the server starts with the
// first Get and ends with the process. A Shared must not be copied. Tests that kill a server start their own.
type Shared[O interface{ share() (S, error) }, S any] struct {
	Options O

	once   sync.Once
	server S
	err    error
}

type (
	// SharedPostgres is a shared PostgreSQL server. If the environment variable RETRYSAFE_TEST_POSTGRES has a URL, the
	// server there is used instead. Kill and similar methods then fail the test.
	SharedPostgres = Shared[PostgresOptions, *Postgres]
	// SharedMariaDB is a shared MariaDB server. If the environment variable RETRYSAFE_TEST_MYSQL has a data source name,
	// such as root:secret@tcp(127.0.0.1:3306)/, the server there is used instead. Kill and similar methods then fail the
	// test.
	SharedMariaDB = Shared[MariaDBOptions, *MariaDB]
	// SharedRedis is a shared server of Redis or Valkey.
	SharedRedis = Shared[RedisOptions, *Redis]
	// SharedNATS is a shared NATS server.
	SharedNATS = Shared[NATSOptions, *NATS]
	// SharedDynalite is a shared server of DynamoDB's protocol, with its tables in memory.
	SharedDynalite = Shared[DynaliteOptions, *Dynalite]
)

// Get returns the server. It fails the test, and all tests that follow, if the server does not start.
func (s *Shared[O, S]) Get(t testing.TB) S {
	t.Helper()
	s.once.Do(func() { s.server, s.err = s.Options.share() })
	check(t, s.err)
	return s.server
}

func (o PostgresOptions) share() (*Postgres, error) {
	given := os.Getenv(postgresVariable)
	if given == "" {
		return LaunchPostgres(o)
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

func (o MariaDBOptions) share() (*MariaDB, error) {
	given := os.Getenv(mysqlVariable)
	if given == "" {
		return LaunchMariaDB(o)
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

func (o RedisOptions) share() (*Redis, error) { return LaunchRedis(o) }

func (o NATSOptions) share() (*NATS, error) { return LaunchNATS(o) }

func (o DynaliteOptions) share() (*Dynalite, error) {
	o.memory = true
	return launchDynalite(o)
}
