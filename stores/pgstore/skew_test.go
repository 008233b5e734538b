package pgstore

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/servers"
)

// clockEnv says by how many seconds the clock of a program from buildWithWrongClock is wrong.
const clockEnv = "PGSTORE_TEST_CLOCK"

// The clocks of a third of the processes are an hour fast, those of another third an hour slow: nobody sees a difference.
func TestTortureWithWrongClocks(t *testing.T) {
	c := startChamber(t, kind{program: buildWithWrongClock(t), clocks: []string{"0", "3600", "-3600"}})
	c.torture(5 * time.Second)
	for _, what := range []string{"clock wrong by 1h0m0s", "clock wrong by -1h0m0s", "complete ok", "claim in flight"} {
		if c.count[what] < 20 {
			t.Errorf("%s: %d", what, c.count[what])
		}
	}
}

// The contract, on a server whose clock is an hour behind those of the clients.
func TestContractWithWrongServerClock(t *testing.T) {
	pg := servers.StartPostgres(t, servers.PostgresOptions{Env: servers.FakeTime(t, -time.Hour)})
	runContract(t, pg.Database(t), Options{}, 1)
}

// buildWithWrongClock builds this test binary with a standard library whose time.Now is wrong. Go programs read the clock past the
// C library, where it could be replaced at run time.
func buildWithWrongClock(t *testing.T) (path string) {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	const read = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {"
	if !strings.Contains(string(text), read) {
		t.Fatalf("%s does not say %q", original, read)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	wrong := write("time.go", strings.Replace(string(text), read, strings.Replace(read, "\n", "\n\tsec += wrongBy\n", 1), 1))
	extra := write("wrong.go", "package time\n\nimport \"syscall\"\n\nvar wrongBy = func() int64 {\n"+
		"\ttext, _ := syscall.Getenv(\""+clockEnv+"\")\n\tn, _ := atoi(text)\n\treturn int64(n)\n}()\n")
	replace := map[string]map[string]string{"Replace": {
		original: wrong, filepath.Join(filepath.Dir(original), "wrong.go"): extra,
	}}
	overlay, err := json.Marshal(replace)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "pgstore.test")
	cmd := exec.Command("go", "test", "-c", "-overlay", write("overlay.json", string(overlay)), "-o", path, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}
