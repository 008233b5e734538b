package clitest

import (
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// The servers of all tests that do not harm them, besides Postgres.
var (
	MariaDB  servers.SharedMariaDB
	Redis    servers.SharedRedis
	NATS     servers.SharedNATS
	Dynalite servers.SharedDynalite
)

// OnEachServer runs a test for each kind of store that processes share, with the URL of an empty place that the
// command has prepared.
func OnEachServer(t *testing.T, test func(t *testing.T, url string)) {
	name := "retrysafe_" + retrysafe.NewOwner().String()[:8]
	for kind, url := range map[string]func(t *testing.T) string{
		"postgres": func(t *testing.T) string { return Postgres.Get(t).Database(t) },
		"mysql":    func(t *testing.T) string { return mysqlURL(t, MariaDB.Get(t).Database(t)) },
		"redis":    func(t *testing.T) string { return WithParam(Redis.Get(t).URL(), "prefix="+name) },
		"dynamodb": func(t *testing.T) string {
			return "dynamodb://" + name + "?region=local&ttl=off&endpoint=" + Dynalite.Get(t).URL()
		},
		"nats": func(t *testing.T) string { return NATS.Get(t).URL() + "/" + name },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			place := url(t)
			if got := Run(t, "migrate", "up", "--store="+place); got.Code != 0 {
				t.Fatalf("migrate up: exit code %d: %s", got.Code, got.Stderr)
			}
			test(t, place)
		})
	}
}

// mysqlURL is a data source name of the driver as a URL.
func mysqlURL(t *testing.T, dsn string) string {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	Must(t, err)
	return "mysql://" + config.User + "@" + config.Addr + "/" + config.DBName
}
