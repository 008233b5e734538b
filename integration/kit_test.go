package integration

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// The servers for tests that do not stop or damage them.
var (
	shared        servers.SharedPostgres
	sharedMariaDB servers.SharedMariaDB
	sharedRedis   servers.SharedRedis
	sharedNATS    servers.SharedNATS
	sharedDynamo  servers.SharedDynalite
)

// TestMain runs more tests concurrently than there are processors, because they mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6")
	os.Exit(m.Run())
}

// openPool connects to a database until the test ends.
func openPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// openPostgres migrates a database and returns a store on it.
func openPostgres(t testing.TB, url string) *pgstore.Store {
	t.Helper()
	pool := openPool(t, url)
	if _, err := pgstore.Migrate(context.Background(), pool, pgstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	return openMigrated(t, pool)
}

func openMigrated(t testing.TB, pool *pgxpool.Pool) *pgstore.Store {
	t.Helper()
	s, err := pgstore.New(context.Background(), pool, pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
