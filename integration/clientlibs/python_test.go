package clientlibs

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

var postgres servers.SharedPostgres

// newDatabase returns the URLs of a database with the schema, directly and through PgBouncer in transaction mode.
func newDatabase(t *testing.T) (direct, bouncer string) {
	t.Helper()
	pg := postgres.Get(t)
	direct = pg.Database(t)
	pool, err := pgxpool.New(t.Context(), direct)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	return direct, servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{}).Through(t, direct)
}

// pythonTests runs modules of clients/python/tests, whose comments say what each test was seen to fail with.
func pythonTests(t *testing.T, kills int, modules ...string) {
	t.Parallel()
	direct, bouncer := newDatabase(t)
	pythonTestsOn(t, direct, bouncer, kills, modules...)
}

func pythonTestsOn(t *testing.T, direct, bouncer string, kills int, modules ...string) {
	t.Helper()
	python := servers.PythonWith(t, "psycopg", "psycopg2", "django", "sqlalchemy", "build", "hatchling", "ensurepip", "mypy",
		"cryptography", "boto3", "confluent_kafka")
	cmd := exec.CommandContext(t.Context(), python, append([]string{"-W", "error::ResourceWarning", "-m", "unittest", "-v"}, modules...)...)
	cmd.Dir = "../../clients/python"
	cmd.Env = append(os.Environ(), "RETRYSAFE_TEST_DATABASE="+direct, "RETRYSAFE_TEST_BOUNCER="+bouncer, "PYTHONDONTWRITEBYTECODE=1",
		"RETRYSAFE_TEST_KILLS="+strconv.Itoa(kills))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func TestPythonClient(t *testing.T) {
	pythonTests(t, 0, "tests.test_once", "tests.test_aio", "tests.test_functions", "tests.test_frameworks", "tests.test_page", "tests.test_testing")
}

// The loops for SQS and Kafka, against a server of each protocol.
func TestPythonQueues(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	t.Setenv("RETRYSAFE_TEST_KAFKA", strings.Join(cluster.ListenAddrs(), ","))
	t.Setenv("RETRYSAFE_TEST_SQS", servers.StartSQS(t).URL())
	direct, bouncer := newDatabase(t)
	pythonTestsOn(t, direct, bouncer, 0, "tests.test_queues")
}

// The wheel is built, installed and imported, and its types are checked.
func TestPythonPackage(t *testing.T) { pythonTests(t, 0, "tests.test_package") }

// Processes are killed and paused at each boundary, and at random moments.
func TestSoakPythonClient(t *testing.T) { pythonTests(t, soak.Times(t, 100), "tests.test_crashes") }
