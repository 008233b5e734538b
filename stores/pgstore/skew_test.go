package pgstore

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// clockEnv says by how much the clock of a program from buildWithWrongClock is wrong.
const clockEnv = "PGSTORE_TEST_CLOCK"

// The clocks of a third of the processes are an hour fast, those of another third an hour slow: there is no
// difference. Seen to fail with acquire.sql judging by the time that the process sent along.
func TestTortureWithWrongClocks(t *testing.T) {
	t.Parallel()
	c := startChamber(t, kind{program: buildWithWrongClock(t), clocks: []string{"0s", "1h", "-1h"}})
	c.torture(20, "clock wrong by 1h0m0s", "clock wrong by -1h0m0s", "complete ok", "claim in flight")
}

// The contract, on a server whose clock is an hour behind those of the clients.
func TestContractWithWrongServerClock(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{
		Env:      servers.FakeTime(t, -time.Hour),
		Settings: shared.Options.Settings,
	})
	runContract(t, pg.Database(t), Options{}, 1)
}

// buildWithWrongClock builds this test binary with a package whose clock is wrong: it calls other functions than
// time.Now and time.Since. Go programs read the clock past the C library, where it could be replaced at run time, and
// a standard library with another clock would take a minute to compile.
func buildWithWrongClock(t *testing.T) (path string) {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		wrong := strings.NewReplacer("time.Now()", "wrongNow()", "time.Since(", "wrongSince(").Replace(string(text))
		if wrong != string(text) {
			replace[filepath.Join(here, name)] = write(name, wrong+"\nvar _ time.Time // it is imported\n")
		}
	}
	replace[filepath.Join(here, "wrong.go")] = write("wrong.go", `package pgstore

import (
	"os"
	"time"
)

func wrongNow() time.Time {
	by, err := time.ParseDuration(os.Getenv("`+clockEnv+`"))
	if err != nil {
		panic(err)
	}
	return time.Now().Add(by)
}

func wrongSince(t time.Time) time.Duration { return wrongNow().Sub(t) }
`)
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "pgstore.test")
	cmd := exec.Command("go", "test", "-c", "-race", "-overlay", write("overlay.json", string(overlay)), "-o", path, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}
