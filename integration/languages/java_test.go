//go:build languages

package languages

import (
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// The client for Java is compiled for Java 11, and its tests run. Their comments say what each was seen to fail with.
func TestJavaClient(t *testing.T) {
	t.Parallel()
	java, javac, driver := servers.JDBC(t)
	database := shared.Get(t).Database(t)
	pool, err := pgxpool.New(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	classes := t.TempDir()
	for _, command := range [][]string{
		{javac, "--release", "11", "-Xlint:all,-serial", "-Werror", "-cp", driver, "-d", classes,
			"../../clients/java/retrysafe/Retrysafe.java", "../../clients/java/test/RetrysafeTest.java"},
		{java, "-cp", classes + ":" + driver, "RetrysafeTest"},
	} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "DATABASE_URL="+database)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
}
